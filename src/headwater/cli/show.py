"""Print the newest rows of a result, late or rejected table, while it runs or afterwards."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode
from headwater.cli.repeating import repeated

if TYPE_CHECKING:
    from headwater.cli.app import Application

SUMMARY = "print the newest rows of a table, running or stopped"


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_table(parser, "a table, or <source>__rejected")
    parser.add_argument("--rows", type=int, default=20, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--watch",
        nargs="?",
        const=2.0,
        type=options.seconds,
        metavar="2s",
        help="print again after every interval until Ctrl-C",
    )
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer

    application = load_app(args.app, flags=options.flags(args), report=step_printer())
    if args.watch is None:
        print(_shown(application, args.table, args.rows))
        return ExitCode.OK

    def told() -> str:
        text = _shown(application, args.table, args.rows)
        return f"{time.strftime('%H:%M:%S')} {text}\n"

    return repeated(told, args.watch)


def _shown(application: Application, table: str, limit: int) -> str:
    from headwater.cli.printing import step_printer
    from headwater.observe.grid import grid
    from headwater.observe.tables import table_rows

    definitions = application.pipeline.definitions()
    found = table_rows(definitions, application.settings, table, limit, report=step_printer())
    if found is None:
        return f"{table}: nothing was written yet (next: headwater run)"
    if not found.rows:
        return f"{table}: no rows"
    count = f"{len(found.rows):,}"
    if found.total is not None and found.total > len(found.rows):
        count = f"the newest {count} of {found.total:,}"
    rows = "row" if count == "1" else "rows"
    return f"{table}: {count} {rows}\n{grid(found.columns, found.rows)}"
