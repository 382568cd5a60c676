"""A failed batch in the user's words: the line of the program, and what was raised there."""

from __future__ import annotations

import traceback

from headwater.errors import DStreamFailed, HeadwaterError
from headwater.runtime.failures import raised_in, users_lines


def explained(problem: BaseException, batch: int, *, is_kept: bool) -> HeadwaterError:
    """What ended a program; an error of ours says it already."""
    if isinstance(problem, HeadwaterError):
        return problem
    mine = users_lines("".join(traceback.format_exception(problem)))
    return DStreamFailed(batch, _raised(problem), where=mine[-1] if mine else None, is_kept=is_kept)


def _raised(problem: BaseException) -> str:
    text = str(problem)
    first = text.strip().splitlines()[0] if text.strip() else ""
    return raised_in(text) or f"{type(problem).__name__}: {first}"
