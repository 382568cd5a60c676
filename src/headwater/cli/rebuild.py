"""Compute a table anew from the beginning of its input, beside the old one, and switch.

The pipeline must not run. Tables that read this one as a stream are made anew as well. The old
tables and their checkpoints are kept aside.
"""

from __future__ import annotations

import argparse

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

SUMMARY = "compute a table anew from its earliest input, and switch to it"


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_table(parser, "the table")
    parser.add_argument(
        "--accept-gaps",
        action="store_true",
        help="also where the source no longer has the beginning of its input",
    )
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import refuse_second_run, session_for
    from headwater.errors import UnknownTable
    from headwater.observe.lines import LinePrinter
    from headwater.planning import make_plan
    from headwater.runtime.claims import Claim
    from headwater.runtime.rebuilding import rebuild, tables_to_rebuild

    application = load_app(args.app, flags=options.flags(args), report=step_printer())
    pipeline, settings = application.pipeline, application.settings
    if args.table not in pipeline.definitions().tables:
        raise UnknownTable(args.table, pipeline.definitions().tables)
    refuse_second_run(application)
    with session_for(application, report=step_printer(), is_verbose=args.verbose) as spark:
        claim = Claim(spark, settings, pipeline.name)
        claim.take()
        printer = LinePrinter()
        try:
            require_kept = claim.keep_for()
            plan = make_plan(pipeline.definitions(), settings, spark=spark)
            specs = {spec.name: spec for spec in plan.queries}
            modes = {name: spec.mode for name, spec in specs.items()}
            names = tables_to_rebuild(plan.graph, args.table, modes)
            print(f"Making anew: {', '.join(names)}", flush=True)
            done = rebuild(
                spark,
                plan.graph,
                settings,
                [specs[name] for name in names],
                upstream=[spec for name, spec in specs.items() if name not in names],
                accepts_gaps=args.accept_gaps,
                before_switch=require_kept,
                report=printer.report,
            )
        finally:
            printer.close()
            claim.let_go()
    for one in done:
        print(f"{one.table}: made anew up to batch {one.last_batch}")
        for place in one.kept:
            print(f"{one.table}: kept in {place}")
    print(f"next: headwater run {application.name}")
    return ExitCode.OK
