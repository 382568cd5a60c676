"""A sink that a test can look into: every batch as it was written, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.connectors.interface import Connector, Idempotence, WriteRequest
from headwater.definitions import OutputMode
from headwater.testing.values import from_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

Row = tuple[Any, ...]


class CrashedOnPurpose(Exception):
    """What a test made happen inside a batch."""


class KeptRows:
    """The batches of one table. A batch that is written again replaces what it wrote before."""

    def __init__(self) -> None:
        self.schema: StructType | None = None
        self.batches: dict[int, list[Row]] = {}
        self.crashes_before_next = False
        """Whether the next batch dies before it is written."""
        self.has_crashed = False
        self.failure: Exception | None = None
        """What the last batch failed with; Spark wraps it beyond recognition."""

    def write(self, frame: DataFrame, batch: int) -> None:
        if self.crashes_before_next:
            self.crashes_before_next, self.has_crashed = False, True
            raise CrashedOnPurpose(f"batch {batch} died before it was written")
        self.schema, self.failure = frame.schema, None
        try:
            self.batches[batch] = from_arrow(frame.toArrow())
        except Exception as failure:
            self.failure = failure
            raise

    def result(
        self, mode: OutputMode, key: tuple[str, ...], order_by: tuple[str, ...] = ()
    ) -> list[Row]:
        """The table as its batches left it."""
        batches = [self.batches[n] for n in sorted(self.batches)]
        return folded(batches, mode, self._positions(key), self._positions(order_by))

    def after(self, batch: int) -> list[Row]:
        """Rows written by later batches, as they were written."""
        return [row for n in sorted(self.batches) if n > batch for row in self.batches[n]]

    @property
    def last(self) -> int:
        return max(self.batches, default=-1)

    def _positions(self, key: tuple[str, ...]) -> list[int]:
        names = [] if self.schema is None else [name.lower() for name in self.schema.names]
        return [names.index(column.lower()) for column in key if column.lower() in names]


def folded(
    batches: list[list[Row]], mode: OutputMode, key: list[int], order_by: list[int]
) -> list[Row]:
    """Batches as the table they make: appended, replaced, or the last row of every key."""
    if mode is OutputMode.COMPLETE:
        return list(batches[-1]) if batches else []
    rows = [row for batch in batches for row in batch]
    if mode is OutputMode.APPEND or not key:
        return rows
    last: dict[str, Row] = {}
    for row in rows:
        name = repr([row[i] for i in key])
        if name not in last or _rank(row, order_by) >= _rank(last[name], order_by):
            last[name] = row
    return list(last.values())


def _rank(row: Row, order_by: list[int]) -> list[tuple[bool, Any]]:
    return [(row[i] is not None, row[i]) for i in order_by]


class KeptSides:
    """Late and rejected rows of a test, in memory."""

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[StructType, Any]]] = {}
        self._versions: dict[tuple[str, str], int] = {}

    def append(
        self, table: str, rows: DataFrame, application: str, version: int, *, are_few: bool = False
    ) -> int:
        last = self.last_version(table, application)
        if last is not None and last >= version:
            return 0
        found = rows.toArrow()
        if found.num_rows:
            self._parts.setdefault(table, []).append((rows.schema, found))
        self._versions[table, application] = version
        return int(found.num_rows)

    def last_version(self, table: str, application: str) -> int | None:
        return self._versions.get((table, application))

    def frame(self, spark: SparkSession, table: str) -> DataFrame | None:
        """Everything kept in a table; None where there is nothing."""
        frames = [
            spark.createDataFrame(rows, schema) for schema, rows in self._parts.get(table, [])
        ]
        return reduce(lambda one, other: one.unionByName(other, True), frames) if frames else None


@dataclass(frozen=True, slots=True)
class KeptSink(Connector):
    """Stands in for a table's own sink; allows what that one allows."""

    system: ClassVar[str] = "kept"
    writes: ClassVar[bool] = True
    writes_increments: ClassVar[bool] = True

    kept: KeptRows = field(hash=False)
    original: Connector

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return self.original.modes(has_key=has_key)

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        return self.original.idempotence(mode, has_key=has_key)

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        return frame.writeStream.foreachBatch(self.kept.write)

    def write_increment(
        self, frame: DataFrame, request: WriteRequest, *, query: str, batch: int
    ) -> None:
        self.kept.write(frame, batch)

    def describe(self) -> str:
        return f"rows of a test, in place of {self.original.describe()}"
