"""Start one table of a running pipeline again, on its checkpoint: after it failed, after
`headwater stop TABLE`, or to make it read its lookups anew."""

from __future__ import annotations

import argparse

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

SUMMARY = "start one table of a running pipeline again"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE")
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from headwater.cli.app import project_folder
    from headwater.cli.runs import ask, run_of
    from headwater.settings import load

    settings = load(project_folder(Path.cwd()), flags=options.flags(args))
    summary = ask(run_of(settings, args.table), "restart", table=args.table)
    last = summary["last_batch"]
    print(f"{args.table}: {summary['state']}, {'new' if last is None else f'after batch {last}'}")
    return ExitCode.OK
