"""Compute a range of event time again, as a batch through the same definition, and replace exactly
that range in the table. The stream may run meanwhile."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

SUMMARY = "compute a range of event time again and replace it"


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_table(parser, "a table in Delta")
    parser.add_argument(
        "--from", dest="start", required=True, type=_moment, metavar="TIME", help="from this moment"
    )
    parser.add_argument(
        "--to", dest="end", required=True, type=_moment, metavar="TIME", help="up to, not with"
    )
    parser.add_argument(
        "--column", metavar="COLUMN", help="the timestamp that counts (default: the only one)"
    )
    options.add_settings(parser)


def _moment(text: str) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; expected one such as 2026-01-05T12:00"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import session_for
    from headwater.errors import PipelineOwned, StorageLeased
    from headwater.planning import make_plan
    from headwater.runtime.backfilling import backfill
    from headwater.runtime.claims import Claim

    application = load_app(args.app, flags=options.flags(args), report=step_printer())
    pipeline, settings = application.pipeline, application.settings
    with session_for(application, report=step_printer(), is_verbose=args.verbose) as spark:
        plan = make_plan(pipeline.definitions(), settings, tables=[args.table], spark=spark)
        (spec,) = plan.queries
        claim, require_kept = Claim(spark, settings, pipeline.name), None
        with contextlib.suppress(PipelineOwned, StorageLeased):
            claim.take()
            require_kept = claim.keep_for()
        try:
            done = backfill(
                spark,
                plan.graph,
                settings,
                spec,
                args.start,
                args.end,
                column=args.column,
                alone=require_kept,
            )
        finally:
            if require_kept is not None:
                claim.let_go()
    print(f"{done.table}: {done.rows:,} rows with {done.column} in the range, in place of the old")
    return ExitCode.OK
