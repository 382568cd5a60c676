"""Input that is gone before it was read: found before a start, kept in `<source>__gaps`."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from headwater.connectors.interface import Gap, ReadRequest
from headwater.definitions import OnDataLoss, Source
from headwater.errors import DataLost
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
        """Raises DataLost where a source with a gap does not skip it."""
        # A batch that did not end is read again: what counts is where the last committed one ended.
        committed = last_number(self._files, f"{log.checkpoint}/commits")
        entry = None if committed is None else log.entry(committed)
        if entry is None:
            return
        lost: dict[str, list[Gap]] = {}
        for source in sources:
            reached = _reached(built.frame, built.sources.get(source.name), entry.offsets)
            gaps = [] if reached is None else source.connector.gaps(request_of(source), reached)
            if gaps:
                self._keep(table, source.name, gaps, entry.batch)
                self._report(GapsFound(source.name, table, tuple(map(str, gaps))))
            if gaps and source.on_data_loss is OnDataLoss.FAIL:
                lost[source.name] = gaps
        for name, gaps in lost.items():
            where = next(source.location for source in sources if source.name == name)
            raise DataLost(name, table, [str(gap) for gap in gaps], where=where)

    def _keep(self, table: str, source: str, gaps: Sequence[Gap], batch: int) -> None:
        now = dt.datetime.now(dt.UTC)
        rows = [
            (table, gap.topic, gap.partition, gap.start, gap.end, gap.reason, batch, now)
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


def _reached(
    frame: DataFrame, source: DataFrame | None, offsets: Sequence[str | None]
) -> str | None:
    """How far a query has got in a source."""
    index = None if source is None else source_index(frame, source)
    return None if index is None or index >= len(offsets) else offsets[index]
