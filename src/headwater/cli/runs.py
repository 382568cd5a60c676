"""Pipelines of a project as other processes see them: who runs, and how to ask it."""

from __future__ import annotations

from typing import Any

from headwater.errors import NotRunning, RequestFailed, UnknownTable
from headwater.runtime import control
from headwater.runtime.ownership import FoundRun, find_runs
from headwater.settings import Settings


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
