"""`run --supervise`: the same command as a child process, started again when it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

from headwater.cli.exit_codes import ExitCode

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
_LOOK_S = 1.0
_PARENT = "HEADWATER_SUPERVISOR_PID"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FINAL = (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.FORCED, ExitCode.INTERRUPTED)
"""What a second start would not change, and what was asked for."""


class Guard:
    """One child after the other. A child that lived longer than the longest wait gives the whole
    budget back."""

    def __init__(self, arguments: Sequence[str], *, budget: int) -> None:
        self._command = [sys.executable, "-m", "headwater.cli.main", *arguments]
        self._budget = budget
        self._child: subprocess.Popen[bytes] | None = None
        self._is_over = False

    def run(self) -> int:
        """The exit code of the last child."""
        previous = {number: signal.signal(number, self._pass_on) for number in _SIGNALS}
        try:
            return self._run()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _run(self) -> int:
        used = 0
        while True:
            started = time.monotonic()
            code = self._one()
            if self._is_over or code in _FINAL:
                return code if code >= 0 else ExitCode.FAILED
            if time.monotonic() - started > LONGEST_WAIT_S:
                used = 0
            if used >= self._budget:
                _tell(f"The driver {_ended(code)}; {used} restarts did not help.")
                return code if code >= 0 else ExitCode.FAILED
            wait_s = min(FIRST_WAIT_S * 2**used, LONGEST_WAIT_S)
            used += 1
            _tell(f"The driver {_ended(code)}; restart {used} of {self._budget} in {wait_s:.0f} s.")
            if self._was_ended_within(wait_s):
                return ExitCode.OK

    def _one(self) -> int:
        # In a session of its own: Ctrl-C reaches the child once, through here.
        environment = {**os.environ, _PARENT: str(os.getpid())}
        self._child = subprocess.Popen(self._command, start_new_session=True, env=environment)
        return self._child.wait()

    def _was_ended_within(self, wait_s: float) -> bool:
        end = time.monotonic() + wait_s
        while time.monotonic() < end and not self._is_over:
            time.sleep(0.1)
        return self._is_over

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._is_over = True
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


def heed_supervisor() -> None:
    """Asks this process to stop when the one that supervises it has died: nobody would start it
    again, and nobody knows that it runs."""
    parent = os.environ.pop(_PARENT, None)
    if parent is None:
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(_LOOK_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="headwater-supervisor", daemon=True).start()


def _ended(code: int) -> str:
    """
    >>> _ended(-9), _ended(3)
    ('was ended by SIGKILL', 'ended with code 3')
    """
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
