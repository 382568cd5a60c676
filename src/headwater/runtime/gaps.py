"""Input that is gone before it was read: found before a start, kept in `<source>__gaps`."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from headwater.connectors.interface import Gap, Loss, ReadRequest
from headwater.definitions import OnDataLoss, Source
from headwater.errors import DataLost, TopicDeleted
from headwater.events import GapsFound, Report
from headwater.ledger import transactions
from headwater.runtime.offsets import OffsetLog
from headwater.runtime.rejects import source_index
from headwater.runtime.storage import Files, Storage, last_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.runtime.frames import BuiltTable

_COLUMNS = (
    "table string, topic string, partition int, `start` long, `end` long, reason string, "
    "batch long, found_at timestamp"
)
_NOWHERE = "{}"


def gaps_name(source: str) -> str:
    return f"{source}__gaps"


class GapGuard:
    """Looks for gaps of the sources of one table's query."""

    def __init__(self, spark: SparkSession, storage: Storage, files: Files, report: Report) -> None:
        self._spark = spark
        self._storage = storage
        self._files = files
        self._report = report

    def check(
        self,
        table: str,
        built: BuiltTable,
        sources: Sequence[Source],
        log: OffsetLog,
        request_of: Callable[[Source], ReadRequest],
    ) -> None:
        """Raises DataLost or TopicDeleted where a source with a gap does not skip it, TopicDeleted
        also where there is nothing left to read, and TopicMissing."""
        # A batch that did not end is read again: what counts is where the last committed one ended.
        committed = last_number(self._files, f"{log.checkpoint}/commits")
        entry = None if committed is None else log.entry(committed)
        if entry is None and log.latest() is None:
            return
        lost: list[tuple[Source, int, list[Gap]]] = []
        for source in sources:
            index = _index(built.frame, built.sources.get(source.name))
            offsets = () if entry is None or index is None else entry.offsets[index : index + 1]
            reached = next(iter(offsets), None) or _NOWHERE
            gaps = source.connector.gaps(request_of(source), reached)
            if gaps and entry is not None and index is not None:
                self._keep(table, source.name, gaps, entry.batch)
                self._report(GapsFound(source.name, table, tuple(map(str, gaps))))
                lost.append((source, index, gaps))
        for source, _, gaps in lost:
            _require_skipped(source, table, gaps)
        for source, index, gaps in lost:
            anew = {gap.topic for gap in gaps if gap.reason is Loss.TOPIC_MADE_ANEW}
            if anew and entry is not None:
                forgotten = partial(source.connector.forgotten, topics=anew)
                # The batch that was begun may be in the sink. It takes nothing of the new topic.
                for batch in (entry.batch + 1, entry.batch):
                    log.replace_offset(batch, index, forgotten)

    def _keep(self, table: str, source: str, gaps: Sequence[Gap], batch: int) -> None:
        now = dt.datetime.now(dt.UTC)
        rows = [
            (table, gap.topic, gap.partition, gap.start, gap.end, gap.reason.value, batch, now)
            for gap in gaps
        ]
        frame = self._spark.createDataFrame(rows, _COLUMNS)
        path = self._storage.table(gaps_name(source))
        # A start that is tried again finds the same gap, which is kept once, or a larger one.
        found = sha256(repr(sorted(map(str, gaps))).encode()).hexdigest()[:16]
        application = f"{self._query_id(table)}/{source}/gaps/{found}"
        transactions.append(frame, path, application=application, version=batch)

    def _query_id(self, table: str) -> str:
        metadata = self._files.read(f"{self._storage.checkpoint(table)}/metadata")
        return str(json.loads(metadata)["id"])


def _index(frame: DataFrame, source: DataFrame | None) -> int | None:
    """Where the offsets of a query have those of a source."""
    return None if source is None else source_index(frame, source)


def _require_skipped(source: Source, table: str, gaps: Sequence[Gap]) -> None:
    fails = source.on_data_loss is OnDataLoss.FAIL
    deleted = [gap for gap in gaps if gap.reason is not Loss.RECORDS_DELETED]
    blocking = [gap for gap in deleted if gap.prevents_reading or fails]
    if blocking:
        raise TopicDeleted(
            blocking[0].topic,
            source.name,
            table,
            [str(gap) for gap in gaps],
            is_there=blocking[0].reason is Loss.TOPIC_MADE_ANEW,
            is_skipped=not fails,
            where=source.location,
        )
    if fails:
        raise DataLost(source.name, table, [str(gap) for gap in gaps], where=source.location)
