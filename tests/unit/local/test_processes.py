from __future__ import annotations

import os
import signal
from pathlib import Path

from headwater.local.processes import ProcessMark, mark, start_detached, stop, wait_until


def start(tmp_path: Path, script: str) -> ProcessMark:
    pid = start_detached(
        ["sh", "-c", script],
        log=tmp_path / "log",
        pid_file=tmp_path / "pid",
        environment=os.environ,
        folder=tmp_path,
    )
    process = mark(pid)
    assert process is not None
    return process


def test_a_detached_process_is_nobodys_child_here_and_logs_both_streams(tmp_path: Path) -> None:
    process = start(tmp_path, "echo out; echo err >&2; exec sleep 60")
    assert wait_until(lambda: (tmp_path / "log").read_text() == "out\nerr\n", timeout_s=10)
    assert os.getsid(process.pid) != os.getsid(0)
    assert int((tmp_path / "pid").read_text()) == process.pid
    assert stop(process, first=signal.SIGTERM, timeout_s=10)
    assert not process.is_alive()


def test_a_process_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    process = start(tmp_path, "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    assert wait_until(lambda: "ready" in (tmp_path / "log").read_text(), timeout_s=10)
    assert not stop(process, first=signal.SIGTERM, timeout_s=0.3)
    assert not process.is_alive()


def test_another_process_with_the_same_pid_is_left_alone(tmp_path: Path) -> None:
    process = start(tmp_path, "exec sleep 60")
    earlier = ProcessMark(process.pid, "an earlier start")
    assert stop(earlier, first=signal.SIGTERM, timeout_s=1)
    assert process.is_alive()
    stop(process, first=signal.SIGTERM, timeout_s=10)


def test_a_pid_that_nobody_has_has_no_mark() -> None:
    assert mark(2**22 + 1) is None
