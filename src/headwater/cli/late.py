"""Show how late rows are: per source the lag behind the newest row, per table the rows that missed
their windows. With --merge, count them after all."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.cli.app import Application
    from headwater.definitions import Source
    from headwater.observe.late import MissedWindow
    from headwater.runtime.lateness import Lateness
    from headwater.runtime.storage import Storage

SUMMARY = "show how late rows are, list captured ones, merge them"
_WINDOWS = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app", nargs="?", metavar="APP", help="the application (default as in run)")
    parser.add_argument("--table", metavar="TABLE", help="this table only")
    parser.add_argument(
        "--merge",
        action="store_true",
        help="compute the missed windows again from the input and correct the tables",
    )
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import session_for
    from headwater.errors import UnknownTable
    from headwater.runtime.storage import Storage

    application = load_app(args.app, flags=options.flags(args), report=step_printer())
    tables = application.pipeline.definitions().tables
    if args.table and args.table not in tables:
        raise UnknownTable(args.table, tables)
    chosen = [args.table] if args.table else list(tables)
    if args.merge:
        return _merge(application, chosen, is_verbose=args.verbose)
    storage = Storage(application.settings.storage_root, application.pipeline.name)
    with contextlib.ExitStack() as stack:
        spark = None
        if not storage.is_local:
            session = session_for(application, report=step_printer(), is_verbose=args.verbose)
            spark = stack.enter_context(session)
        for line in _report(application, storage, spark, chosen):
            print(line)
    return ExitCode.OK


def _report(
    application: Application, storage: Storage, spark: SparkSession | None, tables: list[str]
) -> Iterator[str]:
    """`spark`: where only Spark reaches the storage."""
    from headwater.observe.late import missed_elsewhere, missed_windows
    from headwater.runtime.lateness import measured
    from headwater.runtime.storage import Files

    files = Files(storage, spark)

    for source in application.pipeline.definitions().sources.values():
        if source.watermark is None:
            continue
        found = measured(files, storage, source.name)
        yield from _source_lines(source, found)
    for table in tables:
        place = storage.table(f"{table}__late")
        if spark is None:
            missed = missed_windows(place)
        elif files.exists(f"{place}/_delta_log"):
            missed = missed_elsewhere(spark, place)
        else:
            missed = []
        yield from _table_lines(table, missed)


def _source_lines(source: Source, found: Lateness | None) -> Iterator[str]:
    from headwater.definitions import duration_ms

    if found is None:
        yield f"source {source.name}: nothing measured yet (a query measures from its second batch)"
        return
    yield f"source {source.name}: {found.rows:,} rows against the newest of earlier batches"
    lags = {"p50": found.p50_ms, "p99": found.p99_ms, "p99.9": found.p999_ms, "max": found.max_ms}
    shown = "  ".join(f"{name} {duration(ms)}" for name, ms in lags.items())
    yield f"  lag        {shown}"
    delay = source.delay or "0 ms"
    needed = duration(max(found.p999_ms, 1))
    verdict = "keeps" if duration_ms(delay) >= found.p999_ms else "does not keep"
    yield f"  watermark  {source.watermark}: {verdict} 99.9 % of the rows; {needed} would"
    shares = "  ".join(f"{d} {percent(share)}" for d, share in found.late_shares.items())
    yield f"  behind     {shares}"


def _table_lines(table: str, missed: Sequence[MissedWindow]) -> Iterator[str]:
    if not missed:
        yield f"table {table}: no late rows were captured"
        return
    total = sum(window.rows for window in missed)
    rows = "1 late row" if total == 1 else f"{total:,} late rows"
    yield f"table {table}: {rows}, one per missed window (headwater show {table}__late)"
    for window in missed[-_WINDOWS:]:
        merged = f", {window.merged:,} merged" if window.merged else ""
        yield f"  {window.name}  {window.rows:,}{merged}"


def _merge(application: Application, tables: list[str], *, is_verbose: bool) -> int:
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import session_for
    from headwater.errors import LateMergeImpossible
    from headwater.planning import make_plan
    from headwater.runtime.claims import leased
    from headwater.runtime.merging import merge_late
    from headwater.runtime.ownership import Ownership

    pipeline, settings = application.pipeline, application.settings
    ownership = Ownership(settings.local_folder, pipeline.name)
    ownership.take()
    failed = False
    try:
        with session_for(application, report=step_printer(), is_verbose=is_verbose) as spark:
            plan = make_plan(pipeline.definitions(), settings, tables=tables, spark=spark)
            for spec in plan.queries:
                try:
                    with leased(spark, settings, pipeline.name):
                        done = merge_late(spark, plan.graph, settings, spec)
                except LateMergeImpossible as problem:
                    print(problem)
                    failed = True
                    continue
                if done is None:
                    print(f"{spec.name}: no late rows to merge")
                else:
                    print(
                        f"{done.table}: {done.late_rows:,} late rows merged into "
                        f"{done.windows:,} windows ({done.rows:,} rows written)"
                    )
    finally:
        ownership.let_go()
    return ExitCode.USAGE if failed else ExitCode.OK


def duration(ms: int) -> str:
    """A duration with the unit that fits it.

    >>> duration(0), duration(1500), duration(90_000), duration(7_200_000)
    ('0 s', '1.5 s', '1.5 min', '2 h')
    """
    for limit, unit, size in ((60_000, "s", 1000), (3_600_000, "min", 60_000)):
        if ms < limit:
            return f"{ms / size:.3g} {unit}"
    return f"{ms / 3_600_000:.3g} h"


def percent(share: float) -> str:
    """A share in percent.

    >>> percent(0), percent(0.00012), percent(0.25)
    ('0 %', '0.012 %', '25 %')
    """
    return f"{share * 100:.2g} %" if share else "0 %"
