"""Print what a start would do: the graph, and for each table its sink, mode, trigger, guarantee
and checkpoint. Starts no query and writes nothing."""

from __future__ import annotations

import argparse

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

SUMMARY = "print what would run, with which guarantee, before anything starts"


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_app(parser)
    parser.add_argument(
        "--mermaid", action="store_true", help="only the graph, as a Mermaid flowchart"
    )
    parser.add_argument(
        "--settings", action="store_true", help="every Spark setting with its reason"
    )
    parser.add_argument(
        "--explain",
        nargs="?",
        const="",
        metavar="TABLE",
        help="Spark's own plans of TABLE (default: of every table)",
    )
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import session_for
    from headwater.errors import UnknownTable
    from headwater.graph import resolve
    from headwater.graph.render import as_mermaid

    application = load_app(args.app, flags=options.flags(args), report=step_printer())
    if args.mermaid:
        print(as_mermaid(resolve(application.pipeline.definitions())))
        return ExitCode.OK
    tables = application.pipeline.definitions().tables
    if args.explain and args.explain not in tables:
        raise UnknownTable(args.explain, tables)
    report = step_printer()
    with session_for(application, report=report, is_verbose=args.verbose):
        from headwater.planning import render

        plan = application.pipeline.plan(report=report)
        if args.explain is not None:
            for table in [args.explain] if args.explain else list(plan.tables):
                print(render.explain_text(plan, table))
            return ExitCode.OK
        print(render.as_text(plan))
        if args.settings:
            print(render.settings_text(plan))
    return ExitCode.OK
