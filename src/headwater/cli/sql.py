"""Ask a question in SQL over the result, late and rejected tables and the views of an application,
while it runs or afterwards. Spark's SQL is understood; only a SELECT is answered."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode
from headwater.cli.repeating import repeated

if TYPE_CHECKING:
    from headwater.cli.app import Application

SUMMARY = "ask a question in SQL over tables, running or stopped"

_FORMATS = ("table", "csv", "json", "plot")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="+",
        metavar="[APP] QUERY",
        help='the application (default as in run), and the question: "SELECT … FROM …"',
    )
    parser.add_argument("--format", choices=_FORMATS, default="table", help="default: %(default)s")
    parser.add_argument(
        "--rows", type=_count, default=1000, metavar="N", help="at most; default: %(default)s"
    )
    parser.add_argument(
        "--timeout",
        type=options.seconds,
        default=30.0,
        metavar="30s",
        help="end the question after this time (default: 30s)",
    )
    parser.add_argument(
        "--watch",
        nargs="?",
        const=2.0,
        type=options.seconds,
        metavar="2s",
        help="ask again after every interval until Ctrl-C",
    )
    options.add_settings(parser)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows; expected 1 or more")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.errors import OptionsConflict
    from headwater.sql.questions import parsed

    if len(args.words) > 2:
        raise OptionsConflict(args.words[2], "after the question", 'headwater sql "SELECT …"')
    app, question = (args.words[0] if len(args.words) == 2 else None), args.words[-1]
    parsed(question)
    application = load_app(app, flags=options.flags(args), report=step_printer())
    if args.watch is None:
        print(_answered(application, question, args))
        return ExitCode.OK

    def told() -> str:
        text = _answered(application, question, args)
        return f"{time.strftime('%H:%M:%S')}\n{text}\n"

    return repeated(told, args.watch)


def _answered(application: Application, question: str, args: argparse.Namespace) -> str:
    import sys

    from headwater.cli.printing import step_printer
    from headwater.definitions import View
    from headwater.observe.answers import FORMATS
    from headwater.observe.datasets import table_data
    from headwater.observe.live_sql import answer
    from headwater.observe.tables import table_names

    definitions, settings = application.pipeline.definitions(), application.settings
    found = answer(
        question,
        lambda name: table_data(
            definitions, settings, name, timeout_s=args.timeout, report=step_printer()
        ),
        [*table_names(definitions, settings), *definitions.of(View)],
        rows=args.rows,
        timeout_s=args.timeout,
    )
    if found.is_cut:
        print(f"only the first {args.rows:,} rows (--rows N for more)", file=sys.stderr)
    return FORMATS[args.format](found.columns, found.rows)
