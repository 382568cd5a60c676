"""List the pipelines of this project: running, stopped or crashed, with the state, last batch and
rates of every table. With TABLE: its recent batches and its exception."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import time
from typing import TYPE_CHECKING, Any

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headwater.runtime.ownership import FoundRun
    from headwater.settings import Settings

SUMMARY = "list what runs here, what stopped and what crashed"

_RECENT = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", nargs="?", metavar="TABLE", help="one running table in detail")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.add_argument(
        "--wait",
        type=options.seconds,
        metavar="60s",
        help="first wait until what runs has ended, so long at most",
    )
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from headwater.cli.app import project_folder
    from headwater.runtime.ownership import find_runs
    from headwater.settings import load

    settings = load(project_folder(Path.cwd()), flags=options.flags(args))
    if args.wait is not None:
        from headwater.cli.runs import ended, live_runs

        for found in live_runs(settings):
            ended(found, settings, args.wait)
    if args.table:
        return _one_table(settings, args.table, as_json=args.json)
    described = [described_run(run, settings) for run in find_runs(settings.local_folder)]
    if args.json:
        print(json.dumps(described, indent=2))
    elif not described:
        print(f"No pipeline was started in {settings.folder} (next: headwater run)")
    else:
        print("\n".join(line for run in described for line in run_lines(run)))
    is_well = all(run["state"] != "crashed" and not _failed(run) for run in described)
    return ExitCode.OK if is_well else ExitCode.FAILED


def described_run(found: FoundRun, settings: Settings) -> dict[str, Any]:
    """A pipeline and its tables as plain values."""
    record = found.record
    described: dict[str, Any] = {
        "pipeline": record.pipeline,
        "app": record.app,
        "command": record.start_command,
        "state": _state(found),
        "pid": record.pid,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
    }
    if described["state"] == "running":
        return described | _asked(found)
    return described | {"tables": _stored_tables(found, settings)}


def _state(found: FoundRun) -> str:
    if found.has_crashed:
        return "crashed"
    if not found.is_alive:
        return "stopped"
    # The lock is taken first; until the new record is written, the one of the last run stands.
    return "starting" if found.record.ended_at is not None else "running"


def _asked(found: FoundRun) -> dict[str, Any]:
    from headwater.cli.runs import ask
    from headwater.errors import HeadwaterError

    try:
        return {"tables": ask(found, "status")["tables"]}
    except HeadwaterError as problem:
        return {"state": "not answering", "problem": str(problem), "tables": []}


def _stored_tables(found: FoundRun, settings: Settings) -> list[dict[str, Any]]:
    from headwater.runtime.storage import Files, Storage, last_number

    record = found.record
    storage = Storage(settings.storage_root, record.pipeline)
    tables = []
    for name in record.tables:
        last = record.last_batches.get(name)
        if found.has_crashed and storage.is_local:
            last = last_number(Files(storage), f"{storage.checkpoint(name)}/commits")
        problem, state = record.failures.get(name), _state(found)
        change = {"state": state, "since": None, "reason": _REASONS.get(state), "next_try": None}
        if state == "stopped":
            change |= {"state": "failed" if problem else state, **record.changes.get(name, {})}
        tables.append({"table": name, **change, "last_batch": last, "exception": problem})
    return tables


_REASONS = {
    "crashed": "its process ended without stopping",
    "starting": "the pipeline starts",
}


def _failed(run: dict[str, Any]) -> list[str]:
    return [table["table"] for table in run["tables"] if table.get("exception")]


def run_lines(run: dict[str, Any]) -> list[str]:
    """A pipeline for the reader: a head, a line per table, what failed, the next command."""
    head = f"{run['pipeline']} ({run['app']}): {run['state']}"
    since = _clock(run["started_at"])
    match run["state"]:
        case "crashed":
            head += f", process {run['pid']} (started {since}) ended without stopping"
            follow = [f"  next: {run['command']} goes on after the last committed batch"]
        case "stopped":
            head += f" at {_clock(run['ended_at'])}"
            follow = [f"  next: {run['command']}"]
        case _:
            head += f", process {run['pid']}, since {since}"
            follow = [str(run["problem"])] if "problem" in run else []
    lines = [table_line(table) for table in run["tables"]]
    notes = [f"    {table['table']}: {note}" for table in run["tables"] for note in _notes(table)]
    problems = [str(table["exception"]) for table in run["tables"] if table.get("exception")]
    return [head, *(f"  {line}" for line in lines), *notes, *problems, *follow]


def _notes(table: dict[str, Any]) -> list[str]:
    """Why a table is in its state, when it is tried again, and what it waits for."""
    notes = [str(table[name]) for name in ("reason", "waiting") if table.get(name)]
    if next_try := table.get("next_try"):
        notes.append(f"next try at {_time(next_try)}")
    return notes


def table_line(table: dict[str, Any]) -> str:
    from dataclasses import replace

    from headwater.events import LateCount
    from headwater.observe.board import TableFigures
    from headwater.observe.lines import details, rate
    from headwater.runtime.progress import batch_completed

    batch = "no batch" if table["last_batch"] is None else f"batch {table['last_batch']}"
    since = table.get("since")
    parts = [f"{table['table']}: {table['state']}" + (f" since {_time(since)}" if since else "")]
    parts.append(batch)
    if progress := table.get("progress"):
        last = batch_completed(table["table"], progress)
        if late := table.get("late"):
            last = replace(last, late=LateCount(**late))
        if rejected := table.get("rejected"):
            last = replace(last, rejected={"all": rejected})
        parts += [
            f"{rate(last.input_rows_per_s)} rows/s in",
            f"{rate(last.processed_rows_per_s)} rows/s processed",
            *details(TableFigures(last.table).after(last)),
        ]
    return ", ".join(parts)


def _one_table(settings: Settings, table: str, *, as_json: bool) -> int:
    from headwater.cli.runs import ask, run_of
    from headwater.observe.lines import batch_line
    from headwater.runtime.progress import batch_completed

    found = run_of(settings, table)
    tables = {row["table"]: row for row in ask(found, "status")["tables"]}
    recent = ask(found, "recent", table=table)["recent"]
    if as_json:
        print(json.dumps({**tables[table], "recent": recent}, indent=2))
    else:
        print(table_line(tables[table]))
        for note in _notes(tables[table]):
            print(f"  {note}")
        if message := tables[table].get("message"):
            print(f"  {message}")
        for progress in recent[-_RECENT:]:
            print(f"  {batch_line([batch_completed(table, progress)])}")
        if problem := tables[table].get("exception"):
            print(problem)
    return ExitCode.FAILED if tables[table].get("exception") else ExitCode.OK


def _time(moment: str) -> str:
    """When something was, by the clock of this machine."""
    return _clock(dt.datetime.fromisoformat(moment).timestamp())


def _clock(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
