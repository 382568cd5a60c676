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
from hashlib import blake2b
from typing import TYPE_CHECKING

from headwater.connectors.interface import Note
from headwater.connectors.kafka.clients import end_offsets, partition_count
from headwater.jvm.jar import LABEL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

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
_EARLIEST = -2


def write_once(
    records: DataFrame,
    options: Mapping[str, str],
    *,
    connection: Connection,
    note: Note,
    query: str,
    batch: int,
    is_keyed: bool,
) -> None:
    """Writes what is missing of a batch. `is_keyed`: a batch has one record per key."""
    topic, label = options["topic"], label_of(query, batch)
    noted = _noted(note, batch)
    is_new = noted is None
    if noted is None:
        noted = end_offsets(connection, topic)
        ends = {str(partition): end for partition, end in noted.items()}
        note.write(json.dumps({"batch": batch, "ends": ends}))
    for attempt in range(1, _TRIES + 1):
        missing = records
        if not is_new or attempt > 1:
            partitions = partition_count(connection, topic)
            there = _written(records, options, noted, label, partitions)
            missing = _without(records, there, is_keyed=is_keyed)
        try:
            with _labelling(records.sparkSession, label):
                missing.write.format("kafka").options(**_with_interceptor(options)).save()
            return
        except Exception as failure:
            # What a task raised comes as text inside Spark's own exceptions.
            if _AGAIN not in str(failure) or attempt == _TRIES:
                raise


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


def _with_interceptor(options: Mapping[str, str]) -> dict[str, str]:
    """The producer's options; interceptors of the user's own come first."""
    mine = ",".join(filter(None, [options.get(_INTERCEPTORS), LABEL]))
    return {**options, _INTERCEPTORS: mine}


def _noted(note: Note, batch: int) -> dict[int, int] | None:
    """The ends noted for a batch; None where it comes for the first time."""
    text = note.read()
    found = None if text is None else json.loads(text)
    if found is None or found["batch"] != batch:
        return None
    return {int(partition): int(end) for partition, end in found["ends"].items()}


def _written(
    records: DataFrame,
    options: Mapping[str, str],
    noted: Mapping[int, int],
    label: str,
    partitions: int,
) -> DataFrame:
    """Key and value of the records of a batch that are in the topic."""
    from pyspark.sql import functions as F

    topic = options["topic"]
    client = {
        name: value
        for name, value in options.items()
        if name.startswith("kafka.") and name != _INTERCEPTORS
    }
    # A partition that is new since then is read from its beginning.
    start = {topic: {str(p): noted.get(p, _EARLIEST) for p in range(partitions)}}
    frame = (
        records.sparkSession.read.format("kafka")
        .options(**client)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
        .option("startingOffsets", json.dumps(start))
        .load()
    )

    def is_mine(header: Column) -> Column:
        return (header["key"] == HEADER) & (header["value"] == F.lit(bytes.fromhex(label)))

    return frame.where(F.exists("headers", is_mine)).select("key", "value")


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
