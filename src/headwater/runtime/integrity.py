"""Whether the logs of a checkpoint are whole: looked at before a start, so that nothing runs on a
file that a full disk or a lost machine cut off, nor on a log with holes."""

from __future__ import annotations

import json
import re

from headwater.errors import CheckpointDamaged, Location
from headwater.runtime.storage import Files, last_number

_VERSION = re.compile(r"v\d+")
_LOOKED_AT = 2
"""Spark reads the newest entry, and the one before it."""


def require_whole(
    files: Files, checkpoint: str, table: str, *, where: Location | None = None
) -> None:
    """Raises CheckpointDamaged; costs a look at the newest files of the checkpoint."""
    committed = last_number(files, f"{checkpoint}/commits")
    for path in _newest(files, f"{checkpoint}/offsets"):
        _require(path, _offsets_problem(files.read(path)), table, committed, where)
    for path in _newest(files, f"{checkpoint}/commits")[:1]:
        _require(path, _commit_problem(files.read(path)), table, committed, where)
    about = f"{checkpoint}/metadata"
    if files.exists(about):
        is_whole = _is_json(files.read(about))
        _require(about, None if is_whole else "it is cut off", table, committed, where)


def close_hole(files: Files, checkpoint: str) -> None:
    """Lets a query that logs every batch go on from a log that asynchronous progress left.

    Spark asks for the entry before the newest one, and finds none where that batch was not logged.
    The one that was logged last before it takes its place: if the newest batch was not committed,
    it reads again all that came since then. To be used on such a log only: a hole in any other is
    a file that was lost.
    """
    match _logged(files, f"{checkpoint}/offsets"):
        case [newest, before, *_] if before < newest - 1:
            logged = files.read(f"{checkpoint}/offsets/{before}")
            files.write(f"{checkpoint}/offsets/{newest - 1}", logged)


def _require(
    path: str, problem: str | None, table: str, committed: int | None, where: Location | None
) -> None:
    if problem is not None:
        raise CheckpointDamaged(table, f"{path}: {problem}", last_batch=committed, where=where)


def _newest(files: Files, folder: str) -> list[str]:
    return [f"{folder}/{number}" for number in _logged(files, folder)[:_LOOKED_AT]]


def _logged(files: Files, folder: str) -> list[int]:
    """The batches of a log, the newest first."""
    return sorted((int(n) for n in files.names(folder) if n.isdigit()), reverse=True)


def _offsets_problem(text: str) -> str | None:
    """
    >>> _offsets_problem('v1\\n{"batchWatermarkMs":0}\\n{"logOffset":2}')
    >>> _offsets_problem('v1\\n{"batchWaterm'), _offsets_problem("")
    ('it is cut off', 'it is empty')
    """
    if not text:
        return "it is empty"
    version, *lines = text.splitlines()
    if not _VERSION.fullmatch(version) or len(lines) < 2:
        return "it is cut off"
    about, *offsets = lines
    is_whole = (not about or _is_json(about)) and all(map(_is_offset, offsets))
    return None if is_whole else "it is cut off"


def _commit_problem(text: str) -> str | None:
    if not text:
        return "it is empty"
    version, *lines = text.splitlines()
    is_whole = bool(_VERSION.fullmatch(version)) and bool(lines) and _is_json(lines[0])
    return None if is_whole else "it is cut off"


def _is_offset(text: str) -> bool:
    return bool(text) and (text[0] not in '{["' or _is_json(text))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
