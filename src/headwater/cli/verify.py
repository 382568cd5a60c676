"""Run the pipeline many ways on one input and compare every table with its batch: cuts into
batches, arrival orders inside the watermark, triggers, partitions, restarts, with --crash also
crashes. Ends at the first broken law with the smallest input that shows it, and a test.

The input is what the sources hold now, or the rows of files: --input signals=rows.json
Sinks are replaced by ones in memory. A function sink with read= and clear= is called, and cleared
before and after every run: point it at a place for tests.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headwater.cli.app import Application

KINDS = ("driver", "python worker", "executor", "sink connection")
"""What a crash may hit, as the matrix names it; that is loaded when it is needed."""

SUMMARY = "prove that the stream is the batch, or show where it is not"


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_app(parser)
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="SOURCE=FILE",
        help="rows of a source from a file of JSON lines, CSV or Parquet",
    )
    parser.add_argument(
        "--record", metavar="FOLDER", help="keep the input as files for a later --input"
    )
    parser.add_argument("--rows", type=int, default=10_000, help="refuse more rows (10,000)")
    parser.add_argument("--crash", action="store_true", help="crash around the sink, too")
    parser.add_argument(
        "--late-budget",
        type=int,
        default=0,
        metavar="N",
        help="so many late rows are allowed in the recorded order (0)",
    )
    parser.add_argument(
        "--for", dest="duration", default="60s", metavar="TIME", help="how long it may take (60s)"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="with --crash: kill a real driver at every point, into sinks beside the real ones",
    )
    parser.add_argument(
        "--cover",
        action="store_true",
        help="with --crash: the same in few cells, with every pair of sink, mode, point and kind",
    )
    parser.add_argument(
        "--random",
        type=options.seconds,
        metavar="60s",
        help="with --crash: the same at random points, for this time",
    )
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="NAME",
        help="of --all, --cover or --random: only this table; may be given several times",
    )
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        choices=KINDS,
        help="of --all, --cover or --random: only crashes of this kind; may be given several times",
    )
    parser.add_argument(
        "--results",
        metavar="FILE",
        help="of --all, --cover or --random: what became of every crash",
    )
    parser.add_argument("--seed", type=int, default=0, help="where the random choices begin (0)")
    parser.add_argument(
        "--report", metavar="FILE", help="a page with the differing rows; html: verify.html"
    )
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import session_for
    from headwater.definitions import duration_ms

    files = dict(_input(text) for text in args.input)
    seconds = duration_ms(args.duration, what="--for") / 1000
    _check(args)
    application = load_app(args.app, flags=options.flags(args), report=step_printer())
    if _ways(args):
        from headwater.cli.crashes import run_crashes

        return run_crashes(args, application, files)
    with session_for(application, report=step_printer(), is_verbose=args.verbose) as spark:
        from headwater.verification import reproduction, verify
        from headwater.verification.report import as_html

        module, variable = _import_names(application)
        result = verify(
            application.pipeline,
            spark,
            rows=files,
            limit=args.rows,
            record_into=Path(args.record) if args.record else None,
            late_budget=args.late_budget,
            crashes=args.crash,
            seconds=seconds,
            seed=args.seed,
            module=module,
            variable=variable,
            tell=lambda line: print(line, flush=True),
        )
    print()
    for fact in result.facts():
        print(fact)
    for problem in result.problems:
        print("\n".join(problem.lines()))
    if result.test is not None:
        folder = application.settings.folder / "tests"
        path = reproduction.write(result.test, folder, result.problems[0].table)
        print(f"a test that reproduces it: {path}")
    if args.report:
        page = Path("verify.html" if args.report == "html" else args.report)
        title = f"headwater verify {application.name}"
        text = as_html(title, result.facts(), result.problems, result.test)
        page.write_text(text, encoding="utf-8")
        print(f"report: {page}")
    print("every law holds" if result.holds else "not every law holds")
    return ExitCode.OK if result.holds else ExitCode.FAILED


def _check(args: argparse.Namespace) -> None:
    from headwater.errors import OptionsConflict

    ways = _ways(args)
    if ways and not args.crash:
        raise OptionsConflict(ways[0], "without --crash", f"headwater verify --crash {ways[0]}")
    if len(ways) > 1:
        remedy = f"headwater verify --crash {ways[0]}"
        raise OptionsConflict(ways[1], f"together with {ways[0]}", remedy)
    of_ways = {"--table": args.table, "--kind": args.kind, "--results": args.results}
    for option in [option for option, is_given in of_ways.items() if is_given and not ways]:
        raise OptionsConflict(
            option, "without --all, --cover or --random", "headwater verify --crash --cover"
        )


def _ways(args: argparse.Namespace) -> list[str]:
    """How the crashes of a real driver are chosen, as asked for."""
    asked = {"--all": args.all, "--cover": args.cover, "--random": args.random is not None}
    return [option for option, is_asked in asked.items() if is_asked]


def _input(text: str) -> tuple[str, Path]:
    from headwater.errors import OptionsConflict

    name, separator, file = text.partition("=")
    if not separator or not Path(file).is_file():
        raise OptionsConflict(
            f"--input {text}", "it names no file", "headwater verify --input signals=rows.json"
        )
    return name, Path(file)


def _import_names(application: Application) -> tuple[str, str | None]:
    """How a test imports the pipeline: module and variable; no variable where it has none."""
    import sys

    name, _, variable = application.name.partition(":")
    module = Path(name).stem if name.endswith(".py") else name
    if variable:
        return module, variable
    loaded = sys.modules.get(module)
    names = (
        (n for n, value in vars(loaded).items() if value is application.pipeline) if loaded else ()
    )
    return module, next(iter(names), None)
