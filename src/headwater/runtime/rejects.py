"""Records that were not let in, kept in `<source>__rejected`: they did not parse, or their event
time is missing or too far ahead.

Of several tables over one source the first one in the graph reports its rejected records. Where a
stream carries records, its query tells the few that are rejected. Of many, of other sources and
after a crash, that batch's part of the input is read again from the offsets of the checkpoint, as
records where the source has them, else as rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headwater.connectors.interface import OffsetRange, ReadRequest, struct_type
from headwater.definitions import Source
from headwater.event_time.plans import analyzed, streaming_leaves
from headwater.events import Event, RejectedCaptured
from headwater.graph import Graph
from headwater.jvm.telling import rows_of
from headwater.runtime.frames import is_judged, is_parsed, rejected_rows
from headwater.runtime.offsets import OffsetLog
from headwater.runtime.replay import Replay
from headwater.runtime.sides import Part, SideTable, Told, batches_between

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FEW = 5_000
"""Fewer records of a batch than this are stored without a job of Spark."""


class RejectedRecords(SideTable):
    """The rejected records of a source, as one table's query reports them; `index` is the source's
    position in the query's checkpoint."""

    def __init__(
        self,
        spark: SparkSession,
        source: Source,
        query: str,
        request: ReadRequest,
        log: OffsetLog,
        replay: Replay,
        *,
        index: int,
    ) -> None:
        self.query = query
        self.name = f"{source.name}__rejected"
        self._spark = spark
        self._source = source
        self._request = request
        self._log = log
        self._replay = replay
        self._index = index

    def count(self, told: Told | None) -> int | None:
        heard = None if told is None else told.rejected.get(self._source.name)
        return None if heard is None else len(heard.rows)

    def parts(self, after: int, batch: int, told: Told | None) -> Iterator[Part]:
        for first, last in self._spans(after, batch):
            frame = self._told(first, last, told)
            if frame is None:
                frame = self._read(first, last)
            if frame is not None:
                yield Part(last, with_batch(frame, last), are_few=self._are_few(told))

    def _are_few(self, told: Told | None) -> bool:
        return told is not None and told.event.rejected.get(self._source.name, _FEW) < _FEW

    def _spans(self, after: int, batch: int) -> Iterator[tuple[int, int]]:
        """Batches that can be read together: all, unless each goes by its own time."""
        if self._source.max_ahead_ms is None and is_parsed(self._source):
            yield after, batch
        else:
            yield from ((number - 1, number) for number in batches_between(after, batch))

    def _told(self, after: int, batch: int, told: Told | None) -> DataFrame | None:
        """The rejected records that the query told; None where it had more to tell than it may."""
        heard = None if told is None else told.rejected.get(self._source.name)
        part, record = self._range(after, batch), self._source.connector.record
        if heard is None or part is None or record is None or not heard.is_complete:
            return None
        records = rows_of(self._spark, heard, struct_type(record))
        return self._source.connector.rejected_of(records, self._request, part)

    def _read(self, after: int, batch: int) -> DataFrame | None:
        part = self._range(after, batch)
        if part is None:
            return None
        if not is_parsed(self._source):
            return self._replay.rows(
                lambda built: rejected_rows(built.judged_sources[self._source.name], self._source),
                batch,
            )
        return self._source.connector.read_rejected(self._spark, self._request, part)

    def captured(self, batch: int, rows: int) -> Event:
        return RejectedCaptured(self._source.name, self.query, batch, rows)

    def _range(self, after: int, batch: int) -> OffsetRange | None:
        end = self._offset(batch)
        if end is None:
            return None
        start = self._offset(after) if after >= 0 else None
        if after >= 0 and start is None:
            raise LookupError(f"{self._log.checkpoint} no longer has the offsets of batch {after}")
        if start == end:
            return None
        entry = self._log.entry(batch)
        assert entry is not None
        log = f"{self._log.checkpoint}/sources/{self._index}"
        return OffsetRange(start, end, log, entry.timestamp_ms)

    def _offset(self, batch: int) -> str | None:
        entry = self._log.entry(batch)
        if entry is None or self._index >= len(entry.offsets):
            return None
        return entry.offsets[self._index]


def with_batch(frame: DataFrame, batch: int | None) -> DataFrame:
    """Rejected records with the batch up to which they were found; None for a batch run."""
    from pyspark.sql import functions as F

    return frame.withColumn("batch", F.lit(batch).cast("long"))


def reporter_of(graph: Graph, source: str) -> str | None:
    """The table whose query reports the rejected records of a source."""
    for table in graph.tables:
        if any(read.name == source for read in graph.sources_of(table)):
            return table
    return None


def reported_by(graph: Graph, table: str) -> list[str]:
    """The sources whose rejected records a table's query reports."""
    judged = [s.name for s in graph.sources_of(table) if is_judged(s)]
    return [name for name in judged if reporter_of(graph, name) == table]


def source_index(frame: DataFrame, source_frame: DataFrame) -> int | None:
    """The position that Spark gives a source in the checkpoint of a query over `frame`.

    Spark numbers the streaming relations of the analysed plan in the order of its leaves.
    """
    mine = streaming_leaves(analyzed(source_frame))
    for index, leaf in enumerate(streaming_leaves(analyzed(frame))):
        if any(leaf.equals(other) for other in mine):
            return index
    return None
