"""The user's own function as a sink: per batch or per row."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.connectors.interface import (
    ALL_MODES,
    MICRO_BATCH,
    Connector,
    Idempotence,
    ReadRequest,
    WriteRequest,
    batch_by_batch,
)
from headwater.connectors.upserts import one_row_per_key
from headwater.definitions import OutputMode, TriggerKind
from headwater.errors import InvalidConnector, NotReadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSink(Connector):
    """Rows go to a function of the user's, which may say how to look at what it stored."""

    writes: ClassVar[bool] = True

    is_idempotent: bool = False
    read: Callable[[SparkSession], DataFrame] | None = None
    clear: Callable[[], object] | None = None

    @property
    def can_be_verified(self) -> bool:
        return self.read is not None and self.clear is not None

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        if self.read is None:
            raise NotReadable(
                self.system,
                "batch",
                found="a function, of which nobody knows where it writes",
                remedy=f"{self.system}(…, read=lambda spark: spark.read.parquet(…))",
            )
        return self.read(spark)


@dataclass(frozen=True, slots=True)
class ForeachBatch(FunctionSink):
    """A function of a batch's DataFrame. See `foreach_batch`."""

    system: ClassVar[str] = "foreach_batch"
    writes_increments: ClassVar[bool] = True

    function: Callable[..., object]

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return ALL_MODES

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        if self.is_idempotent:
            return Idempotence(
                True,
                "the function is declared to recognise a batch it saw before",
                "your function really does: by (query, batch), or because it writes by key",
            )
        return Idempotence(
            False, "whether the function recognises a batch it saw before is not known"
        )

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        return batch_by_batch(self, frame, request)

    def write_increment(
        self, frame: DataFrame, request: WriteRequest, *, query: str, batch: int
    ) -> None:
        if request.order_by:
            frame = one_row_per_key(frame, request.key, request.order_by)
        if _takes_query(self.function):
            self.function(frame, batch, query)
        else:
            self.function(frame, batch)

    def describe(self) -> str:
        return f"foreach_batch {_name(self.function)}"


@dataclass(frozen=True, slots=True)
class Foreach(FunctionSink):
    """A function of a row, or an object that processes rows. See `foreach`."""

    system: ClassVar[str] = "foreach"
    # Under continuous triggers Spark opens the same Python writer once per epoch, which fails.
    write_triggers: ClassVar[frozenset[TriggerKind]] = MICRO_BATCH | {TriggerKind.REAL_TIME}

    target: Any

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return ALL_MODES

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        return Idempotence(
            False, "whether the function recognises a row it saw before is not known"
        )

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        return frame.writeStream.foreach(self.target)

    def describe(self) -> str:
        return f"foreach {_name(self.target)}"


def _takes_query(function: Callable[..., object]) -> bool:
    """Whether a function has a place for the id of its query."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len([p for p in parameters if p.kind in kinds and p.default is p.empty]) == 3


def _name(target: object) -> str:
    return getattr(target, "__qualname__", type(target).__qualname__)


def foreach_batch(
    function: Callable[..., object],
    *,
    idempotent: bool = False,
    read: Callable[[SparkSession], DataFrame] | None = None,
    clear: Callable[[], object] | None = None,
) -> ForeachBatch:
    """A sink that calls `function(frame, batch)` once per batch, in the driver.

    All output modes, micro-batch triggers, at-least-once: after a crash the last batch comes
    again, with the same number. A function with a third parameter is also given the id of its
    query: (query, batch) names a batch for good, see `advance_ledger`. A function that leaves the
    same content when a batch comes again may say so: `idempotent=True`. What the function raises
    fails the query, with its own line. With the table's `key` and `order_by` the frame holds one
    row per key, the last.
    `read(spark)` gives what the function has stored as a DataFrame and `clear()` removes it:
    with both, `headwater verify` can hold the function to its word.

    >>> def keep(frame, batch):
    ...     frame.write.mode("append").parquet(f"out/{batch}")
    >>> foreach_batch(keep).describe()
    'foreach_batch keep'
    """
    if not callable(function):
        raise InvalidConnector("foreach_batch", f"{function!r} cannot be called")
    return ForeachBatch(function, is_idempotent=idempotent, read=read, clear=clear)


def advance_ledger(cursor: Any, query: str, batch: int, *, mark: str = "%s") -> bool:
    """Whether a batch is to be written now, asked inside a transaction of your own database.

    `cursor` is one of Python's database interface, in the transaction that writes the rows; `mark`
    is how its driver marks a parameter ("%s", "?"). The number of the last batch of each query is
    kept in the table `headwater_ledger`, and is advanced with the rows or not at all.

    >>> import sqlite3
    >>> cursor = sqlite3.connect(":memory:").cursor()
    >>> advance_ledger(cursor, "q", 0, mark="?"), advance_ledger(cursor, "q", 0, mark="?")
    (True, False)
    """
    cursor.execute(
        "CREATE TABLE IF NOT EXISTS headwater_ledger "
        "(query VARCHAR(200) NOT NULL PRIMARY KEY, batch BIGINT NOT NULL)"
    )
    known = f"SELECT 1 FROM headwater_ledger WHERE query = {mark}"
    cursor.execute(
        f"INSERT INTO headwater_ledger (query, batch) SELECT {mark}, -1 WHERE NOT EXISTS ({known})",
        (query, query),
    )
    cursor.execute(
        f"UPDATE headwater_ledger SET batch = {mark} WHERE query = {mark} AND batch < {mark}",
        (batch, query, batch),
    )
    return int(cursor.rowcount) == 1


def foreach(
    target: Callable[[Row], object] | Any,
    *,
    read: Callable[[SparkSession], DataFrame] | None = None,
    clear: Callable[[], object] | None = None,
) -> Foreach:
    """A sink that calls `target` once per row, in the workers' Python.

    `target` is a function of a row, or an object with `process(row)` and, if it likes,
    `open(partition, epoch)` and `close(error)`, as in Spark. It is pickled, and every row passes
    through Python: some 50 times slower than a sink in the JVM. All output modes, micro-batch and
    real-time triggers, at-least-once. `read` and `clear` are those of `foreach_batch`.

    >>> foreach(print).describe()
    'foreach print'
    """
    if not callable(target) and not callable(getattr(target, "process", None)):
        raise InvalidConnector(
            "foreach", f"{target!r} neither can be called nor has a method process(row)"
        )
    return Foreach(target, read=read, clear=clear)
