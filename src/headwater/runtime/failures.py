"""A failed query in the user's words: its own line, what happened to the data, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headwater.errors import Location, QueryFailedError

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_PYTHON_ERROR = re.compile(
    r"^(?:[\w.]*\.)?([A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)): .*", re.M
)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")


def explained(
    table: str, location: Location, text: str, *, last_batch: int | None, files: Iterable[str] = ()
) -> QueryFailedError:
    """Spark's text of a failure, turned into an error with the user's line first."""
    own = {location.file, *files}
    frames = [Location(m["file"], int(m["line"])) for m in _FRAME.finditer(text)]
    mine = [frame for frame in frames if frame.file in own]
    python = [m.group(0) for m in _PYTHON_ERROR.finditer(text)]
    where = mine[-1] if mine else location
    found = python[-1] if mine and python else _first_sentence(text)
    return QueryFailedError(table, found, last_batch=last_batch, where=where)


def _first_sentence(text: str) -> str:
    """The innermost condition that Spark names, else the first line that says something."""
    conditions = [m.start() for m in _CONDITION.finditer(text) if m.group(1) != "STREAM_FAILED"]
    begin = conditions[-1] if conditions else 0
    rest = text[begin:].split("JVM stacktrace", 1)[0].strip()
    lines = [line.strip() for line in rest.splitlines() if line.strip()]
    return " ".join(lines[:2])[:500] if lines else "Spark gave no reason"
