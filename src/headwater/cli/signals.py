"""Ctrl-C and SIGTERM as a request to stop; a second one ends everything at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn

from headwater.cli.exit_codes import ExitCode

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAME_REQUEST_S = 1.0
"""Who stops a process and its group sends SIGTERM twice and means one stop."""
_JVM_ENDS_S = 2.0
"""How long the system takes to end a JVM whose connection has broken."""


class StopSignals:
    """While entered, a signal sets `requested` and interrupts nothing.

    An exception raised in the midst of a call to the JVM would leave its answer unread, and the
    next call would take it for its own. So the program looks at `requested` where it can stop.
    """

    def __init__(self) -> None:
        self.requested = threading.Event()
        self._previous: dict[signal.Signals, Any] = {}
        self._first_s = 0.0

    def __enter__(self) -> StopSignals:
        self._previous = {number: signal.getsignal(number) for number in _SIGNALS}
        self.take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def take(self) -> None:
        """Also called after a Spark session has started: PySpark sets a handler of its own, which
        cancels the jobs of the running batch."""
        for number in _SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.requested.is_set():
            self._first_s = time.monotonic()
            self.requested.set()
        elif number == signal.SIGINT or time.monotonic() - self._first_s > _SAME_REQUEST_S:
            end_at_once(ExitCode.INTERRUPTED, "Ended at once")


@contextmanager
def ended_with_us(process: int) -> Iterator[None]:
    """A process that gets a SIGTERM where this one ends at once, and is not waited for."""
    _followers.append(process)
    try:
        yield
    finally:
        _followers.remove(process)


_followers: list[int] = []


def end_at_once(code: ExitCode, why: str) -> NoReturn:
    """Ends this process and its JVM without another word to Spark."""
    # Written past the buffers: this may run inside a signal handler that interrupted a print.
    os.write(2, f"\n{why}: the batch that ran is read again at the next start.\n".encode())
    for process in _followers:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGTERM)
    gateway = _gateway()
    if gateway is not None and hasattr(gateway, "proc"):
        gateway.proc.kill()
    os._exit(code)


def jvm_exit() -> int | None:
    """The exit code of a JVM that has ended; None where it lives, or none was started."""
    gateway = _gateway()
    if gateway is None or not hasattr(gateway, "proc"):
        return None
    try:
        return int(gateway.proc.wait(timeout=_JVM_ENDS_S))
    except subprocess.TimeoutExpired:
        return None


def _gateway() -> Any:
    module = sys.modules.get("pyspark.core.context")
    return getattr(module.SparkContext, "_gateway", None) if module else None
