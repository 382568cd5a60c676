"""Pipelines of a project as other processes see them: who runs, and how to ask it."""

from __future__ import annotations

import time
from typing import Any

from headwater.errors import NotRunning, RequestFailed, StillRunning, UnknownTable
from headwater.runtime import control
from headwater.runtime.ownership import FoundRun, find_runs
from headwater.settings import Settings

_POLL_S = 0.1


def live_runs(settings: Settings) -> list[FoundRun]:
    return [run for run in find_runs(settings.local_folder) if run.is_alive]


def run_of(settings: Settings, table: str) -> FoundRun:
    """The running pipeline that has the table."""
    runs = live_runs(settings)
    if not runs:
        raise NotRunning(f"table {table!r} does not run", folder=str(settings.folder))
    for run in runs:
        if table in run.record.tables:
            return run
    raise UnknownTable(table, [name for run in runs for name in run.record.tables])


def ask(run: FoundRun, command: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a running pipeline; raises where it is an error."""
    answer = control.ask(run.record, command, **arguments)
    if "error" in answer:
        raise RequestFailed(run.record.pipeline, str(answer["error"]))
    return answer


def ended(found: FoundRun, settings: Settings, timeout_s: float) -> FoundRun:
    """The run when its pipeline has let go of its folder; raises StillRunning."""
    deadline = time.monotonic() + timeout_s
    record = found.record
    while True:
        runs = find_runs(settings.local_folder)
        now = next(run for run in runs if run.record.pipeline == record.pipeline)
        if not now.is_alive or now.record.pid != record.pid:
            return now
        if time.monotonic() > deadline:
            raise StillRunning(record.pipeline, record.pid, timeout_s)
        time.sleep(_POLL_S)
