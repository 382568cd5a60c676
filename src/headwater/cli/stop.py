"""Stop the pipelines that run in this project, or one table of them: the running batch is
finished and committed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headwater.runtime.ownership import FoundRun
    from headwater.settings import Settings

SUMMARY = "stop what runs here, or one table of it"

_GRACE_S = 30.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", nargs="?", metavar="TABLE", help="only this table")
    parser.add_argument("--drain", action="store_true", help="process what is there before the end")
    parser.add_argument(
        "--timeout",
        type=options.seconds,
        metavar="60s",
        help="how long to wait for the end (default: the stop deadline and 30 s)",
    )
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from headwater.cli.app import project_folder
    from headwater.cli.runs import ask, live_runs, run_of
    from headwater.errors import OptionsConflict
    from headwater.settings import load

    settings = load(project_folder(Path.cwd()), flags=options.flags(args))
    if args.table and args.drain:
        raise OptionsConflict("--drain", "for a single table", "headwater stop --drain")
    if args.table:
        summary = ask(run_of(settings, args.table), "stop", table=args.table)
        print(f"{args.table}: {summary['state']} after {_batch(summary['last_batch'])}")
        print(f"next: headwater restart {args.table}")
        return ExitCode.OK
    runs = live_runs(settings)
    if not runs:
        print(f"Nothing runs in {settings.folder}.")
    timeout_s = settings.stop_deadline_s + _GRACE_S if args.timeout is None else args.timeout
    for found in runs:
        ask(found, "stop", drain=args.drain)
        await_end(found, settings, timeout_s)
    return ExitCode.OK


def await_end(found: FoundRun, settings: Settings, timeout_s: float) -> None:
    """Returns when the pipeline has let go of its folder, and tells its last batches."""
    from headwater.cli.runs import ended

    now = ended(found, settings, timeout_s)
    pipeline = found.record.pipeline
    print(f"{pipeline}: stopped")
    for table, batch in now.record.last_batches.items():
        print(f"  {table}: after {_batch(batch)}")
    print(f"next: {now.record.start_command}")


def _batch(batch: int | None) -> str:
    return "no batch" if batch is None else f"batch {batch}"
