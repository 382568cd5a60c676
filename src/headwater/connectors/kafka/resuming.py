"""Records that reach a topic once, with Spark's sink, which writes a batch again after a crash.

Before a batch is written, the ends of the topic's partitions are noted in the checkpoint. Every
record carries a header that stands for its query and batch. When the batch comes again, records
behind the noted ends with that header are there already, and only the others are written. A task
that Spark tries again fails on purpose (`Label` in our jar), so that the batch goes this way too.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from hashlib import blake2b
from operator import and_
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
_LOOK_S = 0.3
"""Longer than a producer holds a record back."""
_LONGEST_S = 10.0


@dataclass(frozen=True, slots=True)
class Resuming:
    """How the batches of one query reach a topic once."""

    connection: Connection
    options: Mapping[str, str]
    """Those of Spark's sink, with the topic."""
    note: Note
    is_keyed: bool
    """Whether a record takes the place of an earlier one with its key."""

    def write_stream(self, records: DataFrame) -> DataStreamWriter:
        """A writer of new batches by the stream's own plan, and of the others by comparison."""
        from pyspark.java_gateway import ensure_callback_server_started
        from pyspark.sql.utils import ForeachBatchFunction

        spark, name = records.sparkSession, uuid4().hex
        missing = ForeachBatchFunction(
            spark, lambda rows, batch: self._write_missing(rows, query_of(spark), batch)
        )
        java_class(spark, ONCE_SINK).prepare(name, _Labels(self, spark), missing)
        gateway = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # none in PySpark
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
        for tries_left in reversed(range(_TRIES)):
            self._wait_for_ends(records.sparkSession)
            there = self._written(records.sparkSession, label, noted)
            missing = _without(records, there, is_keyed=self.is_keyed)
            if self._is_written(missing, label, may_fail=tries_left > 0):
                return

    def _is_written(self, records: DataFrame, label: str, *, may_fail: bool = True) -> bool:
        """Writes; False where a task was tried again, so that it is not known what is there."""
        with _labelling(records.sparkSession, label):
            try:
                records.write.format("kafka").options(**self._labelled_options()).save()
            except Exception as failure:
                # What a task raised comes as text inside Spark's own exceptions.
                if _AGAIN not in str(failure) or not may_fail:
                    raise
                return False
        return True

    def _wait_for_ends(self, spark: SparkSession) -> None:
        """Until nothing of an earlier attempt is on its way: its tasks have ended, and then their
        producers, which outlive them, have sent what they hold."""
        deadline = time.monotonic() + _LONGEST_S
        while _has_tasks(spark) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        ends = end_offsets(self.connection, self._topic)
        deadline = time.monotonic() + _LONGEST_S
        while time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            before, ends = ends, end_offsets(self.connection, self._topic)
            if ends == before:
                return

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


def _has_tasks(spark: SparkSession) -> bool:
    """Whether a task of an earlier job of this thread's query still runs."""
    group = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)] if group else []
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return any(stage.numActiveTasks for stage in stages if stage)


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
    """The records that are not there; equal ones count as often as they stand.

    By their key, where they have one and it is the only one of it; then a value may differ, as a
    sum of floating-point numbers does. All others by all they hold.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    columns = [name for name in ("key", "value") if name in records.columns]
    compared = [f"__{name}" for name in columns]
    one = records.select("*", *(F.col(name).cast("binary").alias(f"__{name}") for name in columns))
    other = there.select(*(F.col(name).alias(f"__{name}") for name in columns))
    copies = Window.partitionBy(*compared).orderBy(F.lit(1))
    one = one.withColumn("__copy", F.row_number().over(copies))
    other = other.withColumn("__copy", F.row_number().over(copies))
    of_key = Window.partitionBy("__key") if is_keyed and "key" in columns else None
    is_alone = F.lit(False) if of_key is None else F.count(F.lit(1)).over(of_key) == 1
    one = one.withColumn("__is_alone", is_alone)
    same = {name: one[name].eqNullSafe(other[name]) for name in [*compared, "__copy"]}
    is_there = reduce(and_, same.values())
    if of_key is not None:
        is_there = same["__key"] & (one["__is_alone"] | is_there)
    return one.join(other, is_there, "left_anti").select(*records.columns)
