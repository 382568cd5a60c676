"""Records that did not parse, kept as data in `<source>__rejected`.

The query itself only counts them. Where a batch counted some, that batch's part of the input is
read again from the offsets of the checkpoint, off the query's path, and its rejected records are
appended to a Delta table under a transaction that names the query and the batch. A cursor says up
to which batch this is decided; after a crash the undecided batches are read again.

Of several tables over one source the first one in the graph reports its rejected records.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.connectors.interface import OffsetRange, ReadRequest
from headwater.definitions import Source
from headwater.events import RejectedCaptured, Report
from headwater.graph import Graph
from headwater.ledger import transactions
from headwater.runtime.storage import Files, Storage, last_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CURSOR_EVERY = 20


@dataclass(frozen=True, slots=True)
class ReportedSource:
    """A source whose rejected records one table's query reports."""

    source: Source
    table: str
    request: ReadRequest
    index: int
    """Position of the source in the query's checkpoint."""


class RejectCapture:
    """Decides batch after batch, in a thread of its own."""

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        reported: Mapping[str, list[ReportedSource]],
        report: Report,
    ) -> None:
        self._spark = spark
        self._storage = storage
        self._files = Files(storage, spark)
        self._reported = reported
        self._report = report
        self._cursors: dict[tuple[str, str], int] = {}
        self._written: dict[tuple[str, str], int] = {}
        self._batches: queue.Queue[tuple[str, int, Mapping[str, int] | None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="headwater-rejects", daemon=True)
        self._failures: dict[str, Exception] = {}

    @property
    def failure(self) -> Exception | None:
        """Why batches are still undecided; None where all are decided."""
        return next(iter(self._failures.values()), None)

    def start(self) -> None:
        self._thread.start()

    def decide(self, table: str, batch: int, rejected: Mapping[str, int] | None) -> None:
        """Hands over a committed batch; `rejected` is None where nothing was counted."""
        if table in self._reported:
            self._batches.put((table, batch, rejected))

    def catch_up(self, table: str) -> None:
        """Batches that an earlier run committed without deciding are decided first."""
        if table not in self._reported:
            return
        committed = last_number(self._files, f"{self._storage.checkpoint(table)}/commits")
        if committed is not None:
            self._batches.put((table, committed, None))

    def await_decided(self) -> None:
        """Returns when everything handed over so far is decided."""
        self._batches.join()

    def close(self) -> None:
        """Returns when everything handed over is decided."""
        self._batches.put(None)
        self._thread.join()
        for (table, source), cursor in self._cursors.items():
            self._write_cursor(table, source, cursor)

    def _work(self) -> None:
        while (item := self._batches.get()) is not None:
            self._decide_item(*item)
            self._batches.task_done()

    def _decide_item(self, table: str, batch: int, rejected: Mapping[str, int] | None) -> None:
        for reported in self._reported[table]:
            count = None if rejected is None else rejected.get(reported.source.name)
            try:
                self._decide(reported, batch, count)
                self._failures.pop(reported.source.name, None)
            except Exception as problem:
                # The cursor stays: the same batches are decided with the next one.
                self._failures[reported.source.name] = problem

    def _decide(self, reported: ReportedSource, batch: int, count: int | None) -> None:
        key = (reported.table, reported.source.name)
        if key not in self._cursors:
            self._cursors[key] = self._read_cursor(reported)
        cursor = self._cursors[key]
        if batch <= cursor:
            return
        if count != 0 or reported.source.name in self._failures:
            self._capture(reported, cursor, batch)
        self._cursors[key] = batch
        if batch - self._written.get(key, -1) >= _CURSOR_EVERY:
            self._write_cursor(*key, batch)

    def _capture(self, reported: ReportedSource, cursor: int, batch: int) -> None:
        part = self._range(reported, cursor, batch)
        if part is None:
            return
        source = reported.source
        frame = source.connector.read_rejected(self._spark, reported.request, part)
        rows = transactions.append(
            with_batch(frame, batch),
            self._storage.table(f"{source.name}__rejected"),
            application=self._application(reported),
            version=batch,
        )
        if rows:
            self._report(RejectedCaptured(source.name, reported.table, batch, rows))

    def _range(self, reported: ReportedSource, cursor: int, batch: int) -> OffsetRange | None:
        checkpoint = self._storage.checkpoint(reported.table)
        end = self._offset(checkpoint, batch, reported.index)
        if end is None:
            return None
        start = self._offset(checkpoint, cursor, reported.index) if cursor >= 0 else None
        if cursor >= 0 and start is None:
            raise LookupError(f"{checkpoint} no longer has the offsets of batch {cursor}")
        if start == end:
            return None
        return OffsetRange(start, end, f"{checkpoint}/sources/{reported.index}")

    def _offset(self, checkpoint: str, batch: int, index: int) -> str | None:
        path = f"{checkpoint}/offsets/{batch}"
        if not self._files.exists(path):
            return None
        lines = self._files.read(path).splitlines()[2:]
        return lines[index] if index < len(lines) and lines[index] != "-" else None

    def _application(self, reported: ReportedSource) -> str:
        metadata = self._files.read(f"{self._storage.checkpoint(reported.table)}/metadata")
        return f"{json.loads(metadata)['id']}/{reported.source.name}__rejected"

    def _read_cursor(self, reported: ReportedSource) -> int:
        path = self._cursor_path(reported.table, reported.source.name)
        written = int(self._files.read(path)) if self._files.exists(path) else -1
        self._written[reported.table, reported.source.name] = written
        table = self._storage.table(f"{reported.source.name}__rejected")
        stored = transactions.last_version(self._spark, table, self._application(reported))
        return max(written, -1 if stored is None else stored)

    def _write_cursor(self, table: str, source: str, cursor: int) -> None:
        if self._files.exists(self._storage.checkpoint(table)):
            self._files.write(self._cursor_path(table, source), str(cursor))
            self._written[table, source] = cursor

    def _cursor_path(self, table: str, source: str) -> str:
        return f"{self._storage.checkpoint(table)}/headwater/{source}__rejected"


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
    parsed = [s.name for s in graph.sources_of(table) if s.connector.parses and s.schema]
    return [name for name in parsed if reporter_of(graph, name) == table]


def source_index(frame: DataFrame, source_frame: DataFrame) -> int | None:
    """The position that Spark gives a source in the checkpoint of a query over `frame`.

    Spark numbers the streaming relations of the analysed plan in the order of its leaves.
    """
    mine = _streaming_leaves(source_frame)
    for index, leaf in enumerate(_streaming_leaves(frame)):
        if any(leaf.equals(other) for other in mine):
            return index
    return None


def _streaming_leaves(frame: DataFrame) -> list[Any]:
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    found: list[Any] = []
    for position in range(leaves.size()):
        leaf = leaves.apply(position)
        if leaf.isStreaming() and not any(leaf.equals(other) for other in found):
            found.append(leaf)
    return found
