"""A failed query in the user's words: its own line, what happened to the data, what to do."""

from __future__ import annotations

import importlib.util
import re
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from headwater.errors import CheckpointDamaged, Location, QueryFailedError

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_OURS = re.compile(r"^headwater\.errors[\w.]*: (?P<what>[A-Z_]+: .*(?:\n  [a-z]+ .*)*)", re.M)
_DAMAGED = re.compile(
    r"\[(?:CANNOT_LOAD_STATE_STORE\.CANNOT_READ_\w+|\w*MISSING_STATE_DIRECTORY)\]"
    r".*?(?=\. If the stream|\n|$)|Incomplete log file[^\n]*"
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large|quota\S* exceeded")
_READ_ONLY = re.compile(r"Read-only file system|\(Permission denied\)")
_BUSY = re.compile(r"Timed out while waiting for the Python worker to connect back")
_INSTALLED = re.compile(
    r"/(site|dist)-packages/|/lib(64)?/python3\.\d+/"
    r"|/(pyspark|headwater|py4j[^/]*)\.zip/|/(\d+|container_\w+)/packages/"
)
"""Also in the folders of a worker, which may have another Python and is sent archives."""
_TRACEBACK = "Traceback (most recent call last):"


def explained(
    table: str,
    location: Location,
    messages: Sequence[str],
    *,
    last_batch: int | None,
) -> QueryFailedError | CheckpointDamaged:
    """What a chain of causes says, outermost first, with the user's own line where it has one."""
    text = "\n".join(messages)
    if ours := _OURS.search(text):
        found = ours["what"].strip().replace("\n  ", "\n")
        return QueryFailedError(table, found, last_batch=last_batch, where=location)
    mine = users_lines(text, location.file)
    raised = raised_in(text)
    damaged = None if _FULL.search(text) else _DAMAGED.search(text)
    if damaged is not None:
        return CheckpointDamaged(table, damaged[0].strip(), last_batch=last_batch, where=location)
    where = mine[-1] if mine else location
    found = raised if mine and raised else _innermost(messages)
    if _FULL.search(text):
        remedy = "make room on the disk and start again; the checkpoint resumes"
    elif _READ_ONLY.search(text):
        remedy = "let this user write there and start again; the checkpoint resumes"
    elif is_of_a_busy_machine(text):
        remedy = "start again when the machine does less; Python did not start within Spark's 10 s"
    else:
        return QueryFailedError(table, found, last_batch=last_batch, where=where)
    return QueryFailedError(table, found, last_batch=last_batch, remedy=remedy, where=where)


def users_lines(text: str, *files: str) -> list[Location]:
    """The lines of a traceback that the user wrote, the innermost last; those of `files` too."""
    frames = [Location(m["file"], int(m["line"])) for m in _FRAME.finditer(text)]
    return [frame for frame in frames if frame.file in files or _is_users(frame.file)]


def raised_in(text: str) -> str | None:
    """What a worker raised: it stands at the end of the traceback in Spark's own message.

    >>> raised_in("Traceback (most recent call last):\\n  File ...\\nKeyError: 'a'\\n\\tat org...")
    "KeyError: 'a'"
    """
    if _TRACEBACK not in text:
        return None
    # Below the indented frames; of errors that led to each other the last one counts.
    lines = text.rsplit(_TRACEBACK, 1)[1].splitlines()
    return next((line for line in lines if line and not line[0].isspace()), None)


def _is_users(file: str) -> bool:
    return not _INSTALLED.search(file) and not file.startswith(_not_the_users())


@cache
def _not_the_users() -> tuple[str, ...]:
    spark = importlib.util.find_spec("pyspark")
    folders = [sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"]]
    folders += list(spark.submodule_search_locations or ()) if spark is not None else []
    return (*folders, str(Path(__file__).parents[1]), "<")


def is_of_a_busy_machine(text: str) -> bool:
    """Whether a query ended because Python did not start in time: Spark waits 10 s, which cannot be
    set. It says nothing about the query.

    >>> is_of_a_busy_machine("Timed out while waiting for the Python worker to connect back")
    True
    """
    return _BUSY.search(text) is not None


def messages_of(throwable: Any) -> list[str]:
    """The messages of a Java exception and its causes, outermost first."""
    messages = []
    while throwable is not None:
        messages.append(str(throwable.getMessage() or throwable.getClass().getSimpleName()))
        throwable = throwable.getCause()
    return messages


def texts_of(throwable: Any) -> list[str]:
    """As `messages_of`, with the names of the classes."""
    texts = []
    while throwable is not None:
        texts.append(f"{throwable.getClass().getName()}: {throwable.getMessage() or ''}")
        throwable = throwable.getCause()
    return texts


def first_line(problem: Exception) -> str:
    """What an exception says, without the stack that Java's put into their text."""
    java = getattr(problem, "java_exception", None)
    text = str(problem) if java is None else _innermost(messages_of(java))
    return text.strip().split("\n", 1)[0]


def _innermost(messages: Sequence[str]) -> str:
    for message in reversed(messages):
        said = message.split("=== Streaming Query ===", 1)[0].split("JVM stacktrace", 1)[0]
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        if lines:
            return " ".join(lines[:2])[:500]
    return "Spark gave no reason"
