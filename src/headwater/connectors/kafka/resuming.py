"""Records that reach a topic once, with Spark's sink, which writes a batch again after a crash.

Before a batch is written, the ends of the topic's partitions are noted in the checkpoint. Every
record carries a header with its query and batch. When the batch comes again, records behind the
noted ends with that header are there already, and only the others are written. A task that Spark
tries again fails on purpose, so that the batch goes this way too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.connectors.interface import Note
from headwater.connectors.kafka.clients import end_offsets, partition_count
from headwater.jvm.telling import earlier_attempts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headwater.settings import Connection

HEADER = "headwater"
"""Name of the header that says which query and batch wrote a record."""
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
    topic = options["topic"]
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
            there = _written(records, options, noted, f"{query}/{batch}", partitions)
            missing = _without(records, there, is_keyed=is_keyed)
        try:
            labelled = _labelled(missing, f"{query}/{batch}")
            labelled.write.format("kafka").options(**options).save()
            return
        except Exception as failure:
            # What a task raised comes as text inside Spark's own exceptions.
            if _AGAIN not in str(failure) or attempt == _TRIES:
                raise


def _noted(note: Note, batch: int) -> dict[int, int] | None:
    """The ends noted for a batch; None where it comes for the first time."""
    text = note.read()
    found = None if text is None else json.loads(text)
    if found is None or found["batch"] != batch:
        return None
    return {int(partition): int(end) for partition, end in found["ends"].items()}


def _labelled(records: DataFrame, label: str) -> DataFrame:
    """The records with their header; fails in a task that is tried again."""
    from pyspark.sql import functions as F

    again = F.raise_error(F.lit(_AGAIN)).cast("string")
    text = F.when(earlier_attempts(records.sparkSession) > 0, again).otherwise(F.lit(label))
    mine = F.struct(F.lit(HEADER).alias("key"), text.cast("binary").alias("value"))
    if "headers" in records.columns:
        # Spark reads a record without headers as NULL, which would swallow ours.
        given = F.coalesce(F.col("headers"), F.array().cast(records.schema["headers"].dataType))
        return records.withColumn("headers", F.concat(given, F.array(mine)))
    return records.withColumn("headers", F.array(mine))


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
    client = {name: value for name, value in options.items() if name.startswith("kafka.")}
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
        return (header["key"] == HEADER) & (header["value"] == F.lit(label).cast("binary"))

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
