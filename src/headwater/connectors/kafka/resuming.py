"""Records that reach a topic once, with Spark's sink, which writes a batch again after a crash.

Before a batch is written, the ends of the topic's partitions are noted in the checkpoint. Every
record carries a header that stands for its query and batch. When the batch comes again, records
behind the noted ends with that header are there already, and only the others are written. A task
that Spark tries again fails on purpose (`Label` in our jar), so that the batch goes this way too.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from headwater.connectors.interface import Note, query_of
from headwater.connectors.kafka.clients import end_offsets, partition_count
from headwater.connectors.kafka.offsets import EARLIEST
from headwater.jvm.classes import java_class
from headwater.jvm.jar import LABEL, ONCE_SINK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headwater.settings import Connection

HEADER = "hw"
"""Name of the header that says which query and batch wrote a record; short, as every record has
it."""
_LABEL_BYTES = 6
"""A record may be small: its label is a short digest of query and batch, not their names."""
_PROPERTY = "headwater.kafka.label"
_INTERCEPTORS = "kafka.interceptor.classes"
_AGAIN = "a task of headwater was tried again"
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Resuming:
    """How the batches of one query reach a topic once."""

    connection: Connection
    options: Mapping[str, str]
    """Those of Spark's sink, with the topic."""
    note: Note
    is_keyed: bool
    """Whether a batch has one record per key."""

    def write_stream(self, records: DataFrame) -> DataStreamWriter:
        """A writer of new batches by the stream's own plan, and of the others by comparison."""
        from pyspark.java_gateway import ensure_callback_server_started
        from pyspark.sql.utils import ForeachBatchFunction

        spark, name = records.sparkSession, uuid4().hex
        missing = ForeachBatchFunction(
            spark, lambda rows, batch: self._write_missing(rows, query_of(spark), batch)
        )
        java_class(spark, ONCE_SINK).prepare(name, _Labels(self, spark), missing)
        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
        options = {**self._labelled_options(), "headwater.once": name}
        return records.writeStream.format(ONCE_SINK).options(**options)

    def write(self, records: DataFrame, *, query: str, batch: int) -> None:
        """Writes what is missing of one batch."""
        if self.is_new(batch) and self._is_written(records, label_of(query, batch)):
            return
        self._write_missing(records, query, batch)

    def is_new(self, batch: int) -> bool:
        """Whether a batch comes for the first time; if so, notes where its records may begin."""
        if self._noted(batch) is not None:
            return False
        ends = end_offsets(self.connection, self._topic)
        texts = {str(partition): end for partition, end in ends.items()}
        self.note.write(json.dumps({"batch": batch, "ends": texts}))
        return True

    def _noted(self, batch: int) -> dict[int, int] | None:
        """The ends noted for a batch; None where it comes for the first time."""
        text = self.note.read()
        found = None if text is None else json.loads(text)
        if found is None or found["batch"] != batch:
            return None
        return {int(partition): int(end) for partition, end in found["ends"].items()}

    def _write_missing(self, records: DataFrame, query: str, batch: int) -> None:
        label, noted = label_of(query, batch), self._noted(batch)
        assert noted is not None
        for _ in range(_TRIES):
            there = self._written(records.sparkSession, label, noted)
            if self._is_written(_without(records, there, is_keyed=self.is_keyed), label):
                return
        raise RuntimeError(f"{_AGAIN}, for the {_TRIES}th time")

    def _is_written(self, records: DataFrame, label: str) -> bool:
        """Writes; False where a task was tried again, so that it is not known what is there."""
        with _labelling(records.sparkSession, label):
            try:
                records.write.format("kafka").options(**self._labelled_options()).save()
            except Exception as failure:
                # What a task raised comes as text inside Spark's own exceptions.
                if _AGAIN not in str(failure):
                    raise
                return False
        return True

    def _written(self, spark: SparkSession, label: str, noted: Mapping[int, int]) -> DataFrame:
        """Key and value of the records of a batch that are in the topic."""
        from pyspark.sql import functions as F

        # A partition that is new since then is read from its beginning.
        partitions = range(partition_count(self.connection, self._topic))
        start = {self._topic: {str(p): noted.get(p, EARLIEST) for p in partitions}}
        client = {
            name: value
            for name, value in self.options.items()
            if name.startswith("kafka.") and name != _INTERCEPTORS
        }
        frame = (
            spark.read.format("kafka")
            .options(**client)
            .option("subscribe", self._topic)
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "false")
            .option("startingOffsets", json.dumps(start))
            .load()
        )

        def is_mine(header: Column) -> Column:
            return (header["key"] == HEADER) & (header["value"] == F.lit(bytes.fromhex(label)))

        return frame.where(F.exists("headers", is_mine)).select("key", "value")

    def _labelled_options(self) -> dict[str, str]:
        """The producer's options; interceptors of the user's own come first."""
        mine = ",".join(filter(None, [self.options.get(_INTERCEPTORS), LABEL]))
        return {**self.options, _INTERCEPTORS: mine}

    @property
    def _topic(self) -> str:
        return self.options["topic"]


class _Labels:
    """For the sink in the JVM: the label of a batch that is new, None for one that comes again."""

    def __init__(self, resuming: Resuming, spark: SparkSession) -> None:
        self._resuming = resuming
        self._spark = spark

    def apply(self, batch: int) -> str | None:
        is_new = self._resuming.is_new(batch)
        return label_of(query_of(self._spark), batch) if is_new else None

    class Java:
        implements: ClassVar = ["java.util.function.Function"]


def label_of(query: str, batch: int) -> str:
    """What the header of a batch's records holds.

    >>> len(label_of("5c5c3d6f-0d0c-4a4e-8f0c-0f4f6f1f2f3f", 7))
    12
    """
    return blake2b(f"{query}/{batch}".encode(), digest_size=_LABEL_BYTES).hexdigest()


@contextlib.contextmanager
def _labelling(spark: SparkSession, label: str) -> Iterator[None]:
    """Jobs of this thread tell their tasks the label, which the producer gives to every record."""
    context = spark.sparkContext
    context.setLocalProperty(_PROPERTY, label)
    try:
        yield
    finally:
        context.setLocalProperty(_PROPERTY, None)  # type: ignore[arg-type]  # removes it


def _without(records: DataFrame, there: DataFrame, *, is_keyed: bool) -> DataFrame:
    """The records that are not there; equal ones count as often as they stand."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    columns = [name for name in ("key", "value") if name in records.columns]
    one = records.select("*", *(F.col(name).cast("binary").alias(f"__{name}") for name in columns))
    other = there.select(*(F.col(name).alias(f"__{name}") for name in columns))
    compared = ["__key"] if is_keyed else [f"__{name}" for name in columns]
    if not is_keyed:
        copies = Window.partitionBy(*compared).orderBy(F.lit(1))
        one = one.withColumn("__copy", F.row_number().over(copies))
        other = other.withColumn("__copy", F.row_number().over(copies))
        compared = [*compared, "__copy"]
    same = [one[name].eqNullSafe(other[name]) for name in compared]
    return one.join(other, same, "left_anti").drop(*compared, "__key", "__value")
