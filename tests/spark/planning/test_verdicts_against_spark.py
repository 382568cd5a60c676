"""What Spark itself does with a changed query on an old checkpoint, beside our verdicts."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headwater.errors import CheckpointIncompatible
from tests.spark.planning.test_verdicts import (
    SCHEMA,
    Body,
    application,
    both,
    by_number,
    counted,
    filtered,
    longer,
    other_column,
    renamed,
    resumed,
    stateless,
    summed,
)

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
RESUMES, IN_SILENCE, FAILS = "resumes", "takes it in silence", "fails"


class Query:
    """A query of plain Spark over files, with a checkpoint of its own."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder, self._files = spark, folder, 0

    def run(self, body: Body, *, watermark: str | None = "10 minutes") -> None:
        """One batch of new rows; raises what Spark raises."""
        names = body.__code__.co_varnames[: body.__code__.co_argcount]
        inputs = [self._stream(name, watermark) for name in names]
        writer = body(*inputs).writeStream.outputMode("update").format("noop")
        checkpoint = str(self._folder / "checkpoint")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()

    def _stream(self, name: str, watermark: str | None) -> DataFrame:
        place = str(self._folder / name)
        self._files += 1
        at = NOON + dt.timedelta(minutes=self._files)
        frame = self._spark.createDataFrame([("a", at, 1), ("b", at, 2)], SCHEMA)
        frame.write.mode("append").parquet(place)
        stream = self._spark.readStream.schema(SCHEMA).parquet(place)
        return stream if watermark is None else stream.withWatermark("at", watermark)


def spark_takes(query: Query, body: Body, **choices: Any) -> bool:
    try:
        query.run(body, **choices)
    except StreamingQueryException:
        return False
    return True


def headwater_takes(before: Body, after: Body, **choices: Any) -> bool:
    try:
        resumed(application(before), application(after, **choices))
    except CheckpointIncompatible:
        return False
    return True


@pytest.mark.parametrize(
    ("before", "after", "does"),
    [
        (counted, filtered, RESUMES),
        (counted, renamed, RESUMES),
        (counted, summed, FAILS),
        (summed, other_column, IN_SILENCE),
        (counted, by_number, FAILS),
        (counted, longer, IN_SILENCE),
        (counted, stateless, FAILS),
        (counted, both, FAILS),
    ],
    ids=["filter", "name", "aggregate", "column", "key", "window", "no state", "sources"],
)
def test_what_spark_refuses_is_refused_and_what_it_takes_in_silence_too(
    spark: SparkSession, tmp_path: Path, before: Body, after: Body, does: str
) -> None:
    query = Query(spark, tmp_path)
    query.run(before)
    assert spark_takes(query, after) is (does != FAILS)
    assert headwater_takes(before, after) is (does == RESUMES)


@pytest.mark.parametrize(
    ("watermark", "does"), [("5 minutes", RESUMES), (None, IN_SILENCE)], ids=["changed", "removed"]
)
def test_spark_says_nothing_of_a_changed_or_removed_watermark(
    spark: SparkSession, tmp_path: Path, watermark: str | None, does: str
) -> None:
    query = Query(spark, tmp_path)
    query.run(counted)
    assert spark_takes(query, counted, watermark=watermark)
    assert headwater_takes(counted, counted, watermark=watermark) is (does == RESUMES)


def test_the_number_of_partitions_stays_that_of_the_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    query, setting = Query(spark, tmp_path), "spark.sql.shuffle.partitions"
    query.run(counted)
    partitions = spark.conf.get(setting)
    try:
        spark.conf.set(setting, "7")
        query.run(counted)
    finally:
        spark.conf.set(setting, str(partitions))
    folders = [place.name for place in (tmp_path / "checkpoint/state/0").glob("[0-9]*")]
    assert len(folders) == int(str(partitions))
