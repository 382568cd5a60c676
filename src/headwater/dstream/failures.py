"""A failed batch in the user's words: the line of the program, and what was raised there."""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path

import pyspark

from headwater.errors import DStreamFailed, HeadwaterError, Location

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_TRACEBACK = "Traceback (most recent call last):"
_NOT_THE_USERS = (
    sysconfig.get_paths()["stdlib"],
    sysconfig.get_paths()["purelib"],
    str(Path(__file__).parents[1]),
    str(Path(pyspark.__file__).parent),
    "<",
)


def explained(problem: BaseException, batch: int, *, is_kept: bool) -> HeadwaterError:
    """What ended a program; an error of ours says it already."""
    if isinstance(problem, HeadwaterError):
        return problem
    text = "".join(traceback.format_exception(problem))
    frames = [Location(m["file"], int(m["line"])) for m in _FRAME.finditer(text)]
    mine = [frame for frame in frames if _is_users(frame.file)]
    return DStreamFailed(batch, _raised(problem), where=mine[-1] if mine else None, is_kept=is_kept)


def _is_users(file: str) -> bool:
    return not file.startswith(_NOT_THE_USERS) and "/pyspark.zip/" not in file


def _raised(problem: BaseException) -> str:
    """What was raised: in a worker it stands at the end of Spark's own message."""
    text = str(problem)
    if _TRACEBACK in text:
        # Below the indented frames; of errors that led to each other the last one counts.
        lines = text.rsplit(_TRACEBACK, 1)[1].splitlines()
        raised = [line for line in lines if line and not line[0].isspace()]
        if raised:
            return raised[0]
    first = text.strip().splitlines()[0] if text.strip() else ""
    return f"{type(problem).__name__}: {first}"
