"""Generated rows: so many per second, or so many per batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from headwater.connectors.interface import MICRO_BATCH, Connector, ReadRequest, option_texts
from headwater.definitions import TriggerKind, duration_ms
from headwater.errors import InvalidConnector, NotReadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Rate(Connector):
    """So many rows per second of wall-clock time. See `rate`."""

    system: ClassVar[str] = "rate"
    reads_streams: ClassVar[bool] = True
    reads_batches: ClassVar[bool] = True
    is_replayable: ClassVar[bool] = True
    read_triggers: ClassVar[frozenset[TriggerKind]] = MICRO_BATCH | {TriggerKind.CONTINUOUS}

    rows_per_second: int
    rows: int | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        options = {"rowsPerSecond": str(self.rows_per_second), **self.options}
        return _first(spark.readStream.format("rate").options(**options).load(), self.rows)

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        micros = f"(id * 1000000 DIV {self.rows_per_second})"
        return _range(spark, self.rows).selectExpr(
            f"timestamp_micros({micros}) AS timestamp", "id AS value"
        )

    def describe(self) -> str:
        return f"rate, {self.rows_per_second} rows per second"


@dataclass(frozen=True, slots=True)
class RatePerBatch(Connector):
    """So many rows per batch, the same in every run. See `rate`."""

    system: ClassVar[str] = "rate"
    reads_streams: ClassVar[bool] = True
    reads_batches: ClassVar[bool] = True
    is_replayable: ClassVar[bool] = True

    rows_per_batch: int
    rows: int | None = None
    start: datetime = _EPOCH
    advance_ms: int = 1000
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        options = {
            "rowsPerBatch": str(self.rows_per_batch),
            "startTimestamp": str(self._start_ms),
            "advanceMillisPerBatch": str(self.advance_ms),
            **self.options,
        }
        frame = spark.readStream.format("rate-micro-batch").options(**options).load()
        return _first(frame, self.rows)

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        batch = f"(id DIV {self.rows_per_batch})"
        return _range(spark, self.rows).selectExpr(
            f"timestamp_millis({self._start_ms} + {batch} * {self.advance_ms}) AS timestamp",
            "id AS value",
        )

    @property
    def _start_ms(self) -> int:
        return int(self.start.timestamp() * 1000)

    def describe(self) -> str:
        return f"rate, {self.rows_per_batch} rows per batch"


def _first(frame: DataFrame, rows: int | None) -> DataFrame:
    return frame if rows is None else frame.where(f"value < {rows}")


def _range(spark: SparkSession, rows: int | None) -> DataFrame:
    if rows is None:
        raise NotReadable(
            "rate",
            "batch",
            found="a source of generated rows that never ends",
            remedy="say how many rows there are: rate(…, rows=1000)",
        )
    return spark.range(rows)


def rate(
    rows_per_second: int = 1,
    *,
    rows_per_batch: int | None = None,
    rows: int | None = None,
    start: datetime | None = None,
    advance: str = "1 second",
    options: Mapping[str, object] | None = None,
) -> Rate | RatePerBatch:
    """A source of generated rows with the columns `timestamp timestamp, value long`.

    `value` counts from 0. With `rows_per_second` the timestamps are wall-clock time, spread over
    the second. With `rows_per_batch` nothing depends on a clock: the rows of batch N all carry
    `start` (1970 by default) plus N times `advance`, in every run and on every machine.

    `rows` ends the input after so many rows; a batch read needs it. With `rows_per_batch` a batch
    read returns exactly the rows of the stream; with `rows_per_second` it returns the same values,
    with timestamps that begin in 1970. Replayable in both forms.

    >>> rate(rows_per_batch=100, rows=1000).describe()
    'rate, 100 rows per batch'
    """
    for what, amount in {
        "rows_per_second": rows_per_second,
        "rows_per_batch": rows_per_batch,
        "rows": rows,
    }.items():
        if amount is not None and amount <= 0:
            raise InvalidConnector("rate", f"{what}={amount}", expected="a number above 0")
    texts = option_texts(options)
    if rows_per_batch is None:
        return Rate(rows_per_second, rows, texts)
    return RatePerBatch(
        rows_per_batch, rows, start or _EPOCH, duration_ms(advance, what="advance"), texts
    )
