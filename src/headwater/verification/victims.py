"""What a crash hits beside the driver: workers, executors and connections of a run, found from
outside in the process table of Linux."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_EXECUTOR = b"CoarseGrainedExecutorBackend"
_PYTHON_DAEMON = b"pyspark.daemon"
_PIDFD_GETFD = 438
"""The system call that hands over a file of another process; Python has no name for it."""


@dataclass(frozen=True, slots=True)
class Victims:
    """A run: the session of its driver, and the executors of its application on this machine."""

    session: int
    application: str

    def python_workers(self) -> list[int]:
        """Workers that a daemon of Spark's forked."""
        members = self._members()
        daemons = {one.pid for one in members if _PYTHON_DAEMON in one.command}
        return [one.pid for one in members if one.pid in daemons and one.parent in daemons]

    def executors(self) -> list[int]:
        return [one.pid for one in _processes() if self._is_executor(one)]

    def cut(self, ports: Collection[int]) -> int:
        """Shuts the connections that the run has to these ports; how many there were."""
        return sum(_shut(member.pid, ports) for member in self._members())

    def _members(self) -> list[_Process]:
        everything = list(_processes())
        found = {one.pid for one in everything if one.session == self.session}
        found |= {one.pid for one in everything if self._is_executor(one)}
        # A child may come before its parent in the list.
        while more := {one.pid for one in everything if one.parent in found} - found:
            found |= more
        return [one for one in everything if one.pid in found]

    def _is_executor(self, process: _Process) -> bool:
        return _EXECUTOR in process.command and self.application.encode() in process.command


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    session: int
    command: bytes


def _processes() -> Iterator[_Process]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        # One that ends meanwhile is not there any more.
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
            yield _Process(int(entry.name), int(fields[1]), int(fields[3]), command)


def kill(pids: Collection[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _shut(pid: int, ports: Collection[int]) -> int:
    """As a network that fails: both ends see the connection closed in the middle of a word."""
    shut = 0
    with contextlib.suppress(OSError), _handle(pid) as process:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    continue
                copy = ctypes.CDLL(None).syscall(_PIDFD_GETFD, process, int(name), 0)
                if copy < 0:
                    continue
                with socket.socket(fileno=copy) as connection:
                    if connection.family in (socket.AF_INET, socket.AF_INET6):
                        if connection.getpeername()[1] not in ports:
                            continue
                        connection.shutdown(socket.SHUT_RDWR)
                        shut += 1
    return shut


@contextlib.contextmanager
def _handle(pid: int) -> Iterator[int]:
    handle = os.pidfd_open(pid)
    try:
        yield handle
    finally:
        os.close(handle)
