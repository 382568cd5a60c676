"""Background processes that outlive the command which starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Account:
    """The user and group that a process runs as."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """One process for all time: a pid alone is given to another process some day."""

    pid: int
    started: str

    def is_alive(self) -> bool:
        return mark(self.pid) == self


def mark(pid: int) -> ProcessMark | None:
    """The mark of a running process; None if there is none, or only its zombie."""
    started = _started_linux(pid) if sys.platform == "linux" else _started_ps(pid)
    return ProcessMark(pid, started) if started else None


def _started_linux(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    # The command in parentheses may hold blanks; state and start time are counted after it.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"


def _started_ps(pid: int) -> str | None:
    answer = _ps(pid, "stat=,lstart=")
    return None if not answer or answer.startswith("Z") else answer.split(maxsplit=1)[-1]


def command_line(pid: int) -> str:
    """What `pid` was started with, or an empty text."""
    if sys.platform == "linux":
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return ""
        return raw.replace(b"\0", b" ").decode(errors="replace")
    return _ps(pid, "command=")


def _ps(pid: int, columns: str) -> str:
    command = ["ps", "-ww", "-p", str(pid), "-o", columns]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def start_detached(
    argv: list[str],
    *,
    log: Path,
    pid_file: Path,
    environment: Mapping[str, str],
    folder: Path,
    account: Account | None = None,
) -> int:
    """Start `argv` in a session of its own, output appended to `log`; its pid.

    The pid is also in `pid_file` before `argv` begins, so that a caller which dies here leaves
    a trace of what it started. The process is a child of init, never of the caller.
    """
    # The outer shell ends at once: no zombie stays behind when the service is killed later. Its
    # standard output is the pid file, because another account may not open one in this folder.
    inner = 'echo $$; exec "$@" >&2'
    script = f"sh -c '{inner}' sh \"$@\" </dev/null &"
    with open(log, "ab") as output, open(pid_file, "wb") as trace:
        subprocess.run(
            ["sh", "-c", script, "sh", *argv],
            check=True,
            stdout=trace,
            stderr=output,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    wait_until(lambda: pid_in(pid_file) is not None, timeout_s=10)
    pid = pid_in(pid_file)
    if pid is None:
        raise OSError(f"could not start {argv[0]}")
    return pid


def pid_in(pid_file: Path) -> int | None:
    try:
        text = pid_file.read_text(encoding="utf-8")
    except OSError:
        return None
    return int(text) if text.endswith("\n") and text.strip().isdigit() else None


def stop(process: ProcessMark, *, first: signal.Signals, timeout_s: float) -> bool:
    """End `process`: `first`, then SIGKILL when `timeout_s` is over. False if it had to be killed.

    Nothing is sent to a process that has taken over the pid.
    """
    for sent, patience_s in ((first, timeout_s), (signal.SIGKILL, 10.0)):
        if not process.is_alive():
            return True
        try:
            os.kill(process.pid, sent)
        except ProcessLookupError:
            return True
        if wait_until(lambda: not process.is_alive(), timeout_s=patience_s):
            return sent is not signal.SIGKILL
    return False


def wait_until(
    condition: Callable[[], bool], *, timeout_s: float, interval_s: float = 0.05
) -> bool:
    """Poll `condition` until it holds or the time is over; whether it held."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval_s)
    return True
