"""PySpark's notes of who called it, kept for the lines of users only.

PySpark tells the JVM the line of every call that makes a column, for the messages of errors. That
is some nine questions to the JVM per call, and a third of all that is asked when a query starts.
In messages the lines of users are of use, ours are not.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

_asked_before: Any = None


def note_only_users_lines() -> None:
    """From now on, for every session of this process."""
    global _asked_before
    if _asked_before is None:
        from pyspark.errors import utils

        _asked_before = utils.is_debugging_enabled
        utils.is_debugging_enabled = _is_noted


def _is_noted() -> bool:
    return not _is_ours() and bool(_asked_before())


def _is_ours() -> bool:
    """Whether the first caller outside PySpark is Headwater."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package != "pyspark":
            return package == "headwater"
        frame = frame.f_back
    return False
