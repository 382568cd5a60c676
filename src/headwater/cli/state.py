"""Show what a table keeps between batches: its operators, how many keys and bytes in every
partition, and some keys with their values, read from the checkpoint by Spark's own state reader.
With --partitions: give a stopped table's state another number of partitions."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headwater.cli.app import Application
    from headwater.observe.state import State

SUMMARY = "show the state that a table keeps between batches"


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_table(parser, "a table with state")
    parser.add_argument("--rows", type=int, default=20, metavar="N", help="default: %(default)s")
    parser.add_argument("--operator", type=int, default=0, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--part",
        metavar="NAME",
        help="only a side of a join (left, right), a variable of a processor, or timers",
    )
    parser.add_argument("--batch", type=int, metavar="N", help="as of this batch (default: last)")
    parser.add_argument(
        "--partitions",
        type=int,
        metavar="N",
        help="give the state so many partitions; the pipeline must not run",
    )
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import session_for
    from headwater.errors import UnknownTable
    from headwater.observe.state import state_of
    from headwater.runtime.storage import Storage

    application = load_app(args.app, flags=options.flags(args), report=step_printer())
    tables = application.pipeline.definitions().tables
    if args.table not in tables:
        raise UnknownTable(args.table, tables)
    if args.partitions is not None:
        return _repartition(application, args)
    storage = Storage(application.settings.storage_root, application.pipeline.name)
    with session_for(application, report=step_printer(), is_verbose=args.verbose) as spark:
        found = state_of(
            spark,
            storage,
            args.table,
            args.operator,
            part=args.part,
            batch=args.batch,
            limit=args.rows,
        )
    print("\n".join(state_lines(args.table, found)))
    return ExitCode.OK


def state_lines(table: str, state: State) -> list[str]:
    """Operators, sizes of partitions, and every part with its rows, for the reader."""
    from headwater.observe.grid import grid

    lines = [f"{table}: operator {operator}" for operator in state.operators]
    on_disk = state.bytes_on_disk
    lines.append(
        f"as of batch {state.batch}: {sum(on_disk):,} bytes on disk in {len(on_disk)} partitions"
    )
    names = [part.name or "keys" for part in state.parts]
    partitions = [
        (number, size, *(part.keys[number] for part in state.parts))
        for number, size in enumerate(on_disk)
    ]
    lines.append(grid(("partition", "bytes", *names), partitions))
    for part in state.parts:
        named = f"{part.name} ({part.kind}): " if part.name else ""
        lines.append(f"{named}{sum(part.keys):,} keys, {sum(part.entries):,} entries")
        if part.rows:
            lines.append(grid(("key", "value"), part.rows))
    return lines


def _repartition(application: Application, args: argparse.Namespace) -> int:
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import refuse_second_run, session_for
    from headwater.planning import make_plan
    from headwater.runtime.claims import Claim
    from headwater.runtime.repartitioning import repartition
    from headwater.runtime.storage import Files, Storage

    pipeline, settings = application.pipeline, application.settings
    storage = Storage(settings.storage_root, pipeline.name)
    refuse_second_run(application)
    with session_for(application, report=step_printer(), is_verbose=args.verbose) as spark:
        claim = Claim(spark, settings, pipeline.name)
        claim.take()
        try:
            require_kept = claim.keep_for()
            plan = make_plan(pipeline.definitions(), settings, tables=[args.table], spark=spark)
            (spec,) = plan.queries
            require_kept()
            batch = repartition(spark, storage, Files(storage, spark), spec, args.partitions)
        finally:
            claim.let_go()
    print(f"{args.table}: {args.partitions} partitions of state from batch {batch} on")
    print(f"next: headwater run --shuffle-partitions {args.partitions}")
    return ExitCode.OK
