"""A range of event time computed again as a batch, in place of what a table holds of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.connectors.delta import Delta
from headwater.definitions import OutputMode, Table
from headwater.errors import BackfillImpossible, BatchUnfinished
from headwater.event_time.entries import entries_of
from headwater.graph import Graph
from headwater.runtime.frames import Frames
from headwater.runtime.merging import consumed_parts
from headwater.runtime.offsets import OffsetLog
from headwater.runtime.specification import QuerySpec, write_request
from headwater.runtime.storage import Files, Storage, last_number
from headwater.schemas import quoted
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TRIES = 5
_CONFLICT = "DELTA_CONCURRENT"


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What was replaced: `rows` stand now where `column` is in the range."""

    table: str
    column: str
    rows: int


def backfill(
    spark: SparkSession,
    graph: Graph,
    settings: Settings,
    spec: QuerySpec,
    start: dt.datetime,
    end: dt.datetime,
    *,
    column: str | None = None,
    alone: Callable[[], None] | None = None,
) -> Backfilled:
    """Replaces the rows with `start <= column < end`, in one commit; the stream may go on where its
    watermark has closed the range. `alone` is given where nobody runs the pipeline meanwhile; it
    raises where somebody does by now, and is called before the rows are put in place.

    They are computed by the table's own definition from the input that its stream has processed.
    Raises BackfillImpossible, BatchUnfinished.
    """
    from pyspark.sql import functions as F

    table = graph.tables[spec.name]
    if start >= end:
        raise BackfillImpossible(spec.name, f"{start} is not before {end}", where=table.location)
    storage = Storage(settings.storage_root, graph.definitions.pipeline)
    files = Files(storage, spark)
    log = OffsetLog(files, storage.checkpoint(spec.name))
    _require_stays(graph, spec)
    frames = Frames(spark, graph, settings, storage, {spec.name: spec.sink}, {spec.name: spec.mode})
    built = frames.stream(spec.name, spec.trigger)
    _require_closed(table, log, files, end, built.frame, is_alone=alone is not None)
    batch = frames.consumed(spec.name, consumed_parts(graph, spec.name, built, log, files))
    time = _time_column(table, spec, batch, column)
    within = (F.col(quoted(time)) >= F.lit(start)) & (F.col(quoted(time)) < F.lit(end))
    rows = batch.where(within).localCheckpoint()
    sink = spec.sink
    assert isinstance(sink, Delta)
    request = write_request(spec, settings, storage)
    path = sink.place(request.base, "") or request.managed
    name = quoted(time)
    condition = f"{name} >= timestamp'{_text(start)}' AND {name} < timestamp'{_text(end)}'"
    if alone is not None:
        alone()
    _replaced(rows, path, condition)
    return Backfilled(spec.name, time, rows.count())


def _replaced(rows: DataFrame, path: str, condition: str) -> None:
    writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", condition)
    for attempt in range(1, _TRIES + 1):
        try:
            writer.save(path)
            return
        except Exception as failure:
            # The stream committed meanwhile: on top of that, once more.
            if _CONFLICT not in str(failure) or attempt == _TRIES:
                raise


def _require_stays(graph: Graph, spec: QuerySpec) -> None:
    """What is replaced must not be replaced again, and nobody may have read it as it was."""
    table = graph.tables[spec.name]
    if spec.mode is OutputMode.COMPLETE:
        problem = "it is in complete mode: its next batch replaces every row"
        raise BackfillImpossible(spec.name, problem, where=table.location)
    if spec.mode is not OutputMode.APPEND:
        return
    for name in graph.tables:
        if any(read.name == spec.name for read in graph.reads_directly(name)):
            problem = f"table {name} reads it as a stream, which ends where rows are replaced"
            raise BackfillImpossible(spec.name, problem, where=table.location)


def _require_closed(
    table: Table,
    log: OffsetLog,
    files: Files,
    end: dt.datetime,
    frame: DataFrame,
    *,
    is_alone: bool,
) -> None:
    """The stream writes nothing more there: its watermark has closed the range, or it stands still
    between two batches."""

    def refuse(problem: str) -> BackfillImpossible:
        return BackfillImpossible(table.name, problem, where=table.location)

    committed = last_number(files, f"{log.checkpoint}/commits")
    entry = None if committed is None else log.entry(committed)
    if committed is None or entry is None:
        raise refuse("its stream has committed no batch")
    entries = entries_of(frame)
    closes = bool(entries) and all(one.moment is not None for one in entries)
    if not closes or not entry.watermark_ms:
        begun = last_number(files, f"{log.checkpoint}/offsets") or 0
        if not is_alone:
            raise refuse("no watermark closes a range of it: stop the pipeline first")
        if begun > committed:
            raise BatchUnfinished(table.name, begun, f"backfill {table.name}")
        return
    # A window that began in the range may end behind it.
    longest_us = max((one.window.duration_us for one in entries if one.window), default=0)
    if entry.watermark_ms < end.timestamp() * 1000 + longest_us / 1000:
        watermark = dt.datetime.fromtimestamp(entry.watermark_ms / 1000, dt.UTC)
        raise refuse(f"the stream still writes there: its watermark is at {watermark}")


def _time_column(table: Table, spec: QuerySpec, batch: DataFrame, column: str | None) -> str:
    from pyspark.sql.types import TimestampType

    if not isinstance(spec.sink, Delta):
        raise BackfillImpossible(
            table.name,
            f"{spec.sink.describe()} cannot replace a range in one commit",
            where=table.location,
        )
    times = [field.name for field in batch.schema if isinstance(field.dataType, TimestampType)]
    if column is not None and column in times:
        return column
    if column is None and len(times) == 1:
        return times[0]
    found = f"columns that are timestamps: {', '.join(times) or 'none'}"
    raise BackfillImpossible(table.name, found, where=table.location)


def _text(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00:00")
