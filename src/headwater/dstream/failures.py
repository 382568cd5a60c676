"""A failed batch in the user's words: the line of the program, and what was raised there."""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path

from headwater.errors import DStreamFailed, HeadwaterError, Location

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*)$", re.M)
_NOT_THE_USERS = (
    sysconfig.get_paths()["stdlib"],
    sysconfig.get_paths()["purelib"],
    str(Path(__file__).parents[1]),
    "<",
)


def explained(problem: BaseException, batch: int, *, is_kept: bool) -> HeadwaterError:
    """What ended a program; an error of ours says it already."""
    if isinstance(problem, HeadwaterError):
        return problem
    text = "".join(traceback.format_exception(problem))
    frames = [Location(m["file"], int(m["line"])) for m in _FRAME.finditer(text)]
    mine = [f for f in frames if not f.file.startswith(_NOT_THE_USERS) and "pyspark" not in f.file]
    return DStreamFailed(batch, _raised(problem), where=mine[-1] if mine else None, is_kept=is_kept)


def _raised(problem: BaseException) -> str:
    """What was raised: in a worker it stands at the end of Spark's own message."""
    text = str(problem)
    if "Traceback (most recent call last)" in text:
        worker = text.split("Traceback (most recent call last)")[1]
        found = _PYTHON_ERROR.findall(worker)
        if found:
            return str(found[-1])
    first = text.strip().splitlines()[0] if text.strip() else ""
    return f"{type(problem).__name__}: {first}"
