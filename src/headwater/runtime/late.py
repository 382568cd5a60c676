"""Late rows, kept in `<table>__late`: one row per missed window."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING

from headwater.definitions import PERFECT, Late, Source, duration_ms
from headwater.event_time.late import (
    BATCH,
    INPUT,
    MERGED,
    WATERMARK,
    input_name,
    late_rows,
    watched_entries,
    with_missed_windows,
)
from headwater.event_time.watch import Moments, Watch
from headwater.event_time.watermark import batch_watermark, watermark_at
from headwater.events import Event, LateCaptured
from headwater.jvm.asking import asked_per_batch
from headwater.runtime.offsets import OffsetLog
from headwater.runtime.replay import Replay
from headwater.runtime.sides import Part, SideTable, Told, batches_between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame


def late_name(table: str) -> str:
    """The table that keeps the late rows of a table."""
    return f"{table}__late"


def watch_over(frame: DataFrame, late: Late, sources: Sequence[Source], log: OffsetLog) -> Watch:
    """The watch of a table's query; `log` is the query's own offset log."""
    from pyspark.sql import functions as F

    spark = frame.sparkSession
    watermark = batch_watermark(spark, log.watermark_ms)
    batch = asked_per_batch(spark, log.latest_batch)
    on_time = None
    if late.lateness is not None:
        on_time = watermark + F.make_dt_interval(secs=F.lit(duration_ms(late.lateness) / 1000))
    moments = Moments(batch, watermark, newest_seen(watermark, sources, late), on_time)
    return Watch(frame, moments, keeps=late.keeps_rows, sees_rows=is_perfect(sources))


def is_perfect(sources: Sequence[Source]) -> bool:
    """Whether every row behind the watermark breaks a promise."""
    watermarks = [source.watermark for source in sources if source.watermark]
    return bool(watermarks) and all(watermark == PERFECT for watermark in watermarks)


def newest_seen(watermark: Column, sources: Sequence[Source], late: Late | None) -> Column | None:
    """The newest event time of earlier batches: known where one source moves the watermark."""
    from pyspark.sql import functions as F

    delays = [source.delay for source in sources if source.delay]
    if len(delays) != 1:
        return None
    lateness = late.lateness if late else None
    delay_ms = duration_ms(delays[0]) + (duration_ms(lateness) if lateness else 0)
    is_known = watermark > F.timestamp_millis(F.lit(0))
    return F.when(is_known, watermark + F.make_dt_interval(secs=F.lit(delay_ms / 1000)))


class LateRows(SideTable):
    """The late rows of one table. Few of them are told by the query itself; of many, and after a
    crash, the batch is run again through the query up to where they were found late."""

    def __init__(
        self,
        query: str,
        frame: DataFrame,
        sources: Sequence[Source],
        log: OffsetLog,
        replay: Replay,
    ) -> None:
        self.query = query
        self.name = late_name(query)
        self._sees_rows = is_perfect(sources)
        self._log = log
        self._replay = replay
        self._entries = watched_entries(frame)

    def count(self, told: Told | None) -> int | None:
        if told is None or told.heard is None:
            return None
        is_complete = all(part.is_complete for part in told.heard.told)
        return sum(part.weight for part in told.heard.told) if is_complete else None

    def parts(self, after: int, batch: int, told: Told | None) -> Iterator[Part]:
        for number in batches_between(after, batch):
            entry = self._log.entry(number)
            if entry is None:
                raise LookupError(
                    f"{self._log.checkpoint} no longer has the offsets of batch {number}"
                )
            at = watermark_at(entry.watermark_ms)
            found = [
                self._at_entry(position, number, at, told) for position in range(len(self._entries))
            ]
            rows = reduce(lambda one, other: one.unionByName(other, True), found)
            yield Part(number, _labelled(rows, at, number), are_few=self.count(told) is not None)

    def captured(self, batch: int, rows: int) -> Event:
        return LateCaptured(self.query, batch, rows)

    def _at_entry(self, position: int, batch: int, at: Column, told: Told | None) -> DataFrame:
        from pyspark.sql import functions as F

        entry = self._entries[position]
        rows = self._told(position, at, told)
        if rows is None:
            rows = self._replay.rows(
                lambda built: late_rows(built.frame, position, at, sees_rows=self._sees_rows),
                batch,
            )
        if len(self._entries) == 1:
            return rows
        return rows.withColumn(INPUT, F.lit(input_name(entry.side)))

    def _told(self, position: int, at: Column, told: Told | None) -> DataFrame | None:
        """The late rows that the query told; None where it had more to tell than it may."""
        if told is None or told.heard is None or told.watch is None:
            return None
        part = told.heard.told[position]
        if not part.is_complete:
            return None
        rows = told.watch.rows(position, part)
        return with_missed_windows(rows, self._entries[position], at, sees_rows=self._sees_rows)


def _labelled(rows: DataFrame, at: Column, batch: int) -> DataFrame:
    from pyspark.sql import functions as F

    labelled = rows.withColumn(WATERMARK, at).withColumn(BATCH, F.lit(batch).cast("long"))
    return labelled.withColumn(MERGED, F.lit(False))
