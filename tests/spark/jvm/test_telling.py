"""Which attempts of its tasks a job was made of, told by objects that serve many jobs."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.jvm.telling import Attempts


def of(frame: DataFrame) -> set[str]:
    return {row["attempt"] for row in frame.select("attempt").distinct().collect()}


def test_a_job_is_told_its_own_attempts_and_none_of_the_job_before(spark: SparkSession) -> None:
    frame = spark.range(100).repartition(2)
    with Attempts.of_a_job(spark, "attempt") as first:
        rows = first.labelled(frame).localCheckpoint()
        told = set(first.successful())
    with Attempts.of_a_job(spark, "attempt") as second:
        assert second is first
        rows_after = second.labelled(frame).localCheckpoint()
        told_after = set(second.successful())
    assert told == of(rows)
    assert len(told) == 2
    assert told_after == of(rows_after)
    assert not told & told_after


def test_jobs_at_once_do_not_hear_each_other(spark: SparkSession) -> None:
    with (
        Attempts.of_a_job(spark, "attempt") as one,
        Attempts.of_a_job(spark, "attempt") as other,
    ):
        rows = one.labelled(spark.range(10)).localCheckpoint()
        assert other.successful() == []
        assert set(one.successful()) == of(rows)


def test_after_a_failure_its_tasks_may_tell_nobody(spark: SparkSession) -> None:
    fails = F.raise_error(F.lit("on purpose"))
    with (
        pytest.raises(PySparkException, match="on purpose"),
        Attempts.of_a_job(spark, "attempt") as failed,
    ):
        failed.labelled(spark.range(10)).select(fails).collect()
    with Attempts.of_a_job(spark, "attempt") as next_one:
        assert next_one is not failed
        assert next_one.successful() == []
