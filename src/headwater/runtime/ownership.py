"""Which process runs a pipeline: a lock that dies with it, and a record that outlives it.

<project>/.headwater/<pipeline>/run/lock      held while the pipeline runs
<project>/.headwater/<pipeline>/run/run.json  who holds it, how to reach it, how it ended
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shlex
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

from headwater.errors import PipelineOwned

_ATTEMPTS = 3
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What another process can know of a run."""

    pipeline: str
    pid: int
    started_at: float
    port: int = 0
    token: str = ""
    app: str | None = None
    command: str = "run"
    """The command that starts it."""
    flags: tuple[str, ...] = ()
    """Its settings that the command line gave."""
    tables: tuple[str, ...] = ()
    ended_at: float | None = None
    last_batches: dict[str, int | None] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    changes: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """State, time and reason that every table ended with."""

    @property
    def start_command(self) -> str:
        """What starts it again, as a command line."""
        words = ("headwater", *self.command.split(), self.app, *self.flags)
        return shlex.join(word for word in words if word is not None)


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A record, and whether its process still holds the lock."""

    record: RunRecord
    is_alive: bool

    @property
    def has_crashed(self) -> bool:
        return not self.is_alive and self.record.ended_at is None


class Ownership:
    """The right to run one pipeline; at most one process has it.

    The lock belongs to the process, so the kernel frees it after `kill -9` as well.
    """

    def __init__(self, folder: Path, pipeline: str) -> None:
        self._folder = run_folder(folder, pipeline)
        self._lock: IO[str] | None = None
        self.record = RunRecord(pipeline, os.getpid(), time.time(), token=secrets.token_hex(16))

    def take(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = open(self._folder / "lock", "a")  # noqa: SIM115 - held until `release`
        if not _locked(lock):
            lock.close()
            found = _read(self._folder)
            pid = found.pid if found else None
            raise PipelineOwned(self.record.pipeline, pid, str(self._folder))
        self._lock = lock

    def publish(
        self,
        *,
        port: int,
        app: str | None,
        tables: tuple[str, ...],
        flags: tuple[str, ...] = (),
        command: str = "run",
    ) -> None:
        """Tells other processes how to reach this one."""
        self.record = replace(
            self.record, port=port, app=app, tables=tables, flags=flags, command=command
        )
        self._write()

    def release(
        self,
        last_batches: dict[str, int | None],
        failures: dict[str, str],
        changes: dict[str, dict[str, str | None]] | None = None,
    ) -> None:
        if self._lock is None:
            return
        self.record = replace(
            self.record,
            ended_at=time.time(),
            last_batches=last_batches,
            failures=failures,
            changes=changes or {},
        )
        try:
            self._write()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Frees the lock and leaves the record of the last run as it is."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _write(self) -> None:
        beside = self._folder / "run.json.new"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(self.record), file)
        beside.replace(self._folder / "run.json")


def _locked(lock: IO[str]) -> bool:
    # Somebody who only looks holds a shared lock for an instant: that is no owner.
    for attempt in range(_ATTEMPTS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if attempt + 1 < _ATTEMPTS:
                time.sleep(_PAUSE_S)
    return False


def run_folder(folder: Path, pipeline: str) -> Path:
    return folder / pipeline / "run"


def find_runs(folder: Path) -> list[FoundRun]:
    """Every pipeline that was ever started in a project's folder."""
    records = sorted(folder.glob("*/run/run.json"))
    return [FoundRun(r, _is_held(p.parent)) for p in records if (r := _read(p.parent)) is not None]


def _read(folder: Path) -> RunRecord | None:
    try:
        content = json.loads((folder / "run.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return RunRecord(**{**content, "tables": tuple(content["tables"])})


def _is_held(folder: Path) -> bool:
    # Shared, so that two who look do not take each other for the owner.
    with open(folder / "lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
