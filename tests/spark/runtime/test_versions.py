"""Rows of the version that a plan is made for, read past Delta's log."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater.jvm.asking import rows_per_batch


def test_every_plan_asks_which_version_it_takes(spark: SparkSession, tmp_path: Path) -> None:
    place = f"{tmp_path}/the lookups, 100 %20 [of] {{them}} * #1"
    versions = spark.range(10, 30).withColumn("v", F.floor(F.col("id") / 10))
    few = versions.where("id % 10 < 3")
    for rows in (few.where("v = 1"), few.where("v = 2"), versions.where("id = 13 OR id = 23")):
        rows.coalesce(1).write.format("delta").mode("append").save(place)
    wanted = 0
    frame = rows_per_batch(spark, place, "v", lambda: wanted)
    found = {}
    for wanted in (0, 1, 2, 1, 3):
        found[wanted] = sorted(tuple(row) for row in frame.select("v", "id").collect())
    assert found == {
        0: [],
        1: [(1, 10), (1, 11), (1, 12), (1, 13)],
        2: [(2, 20), (2, 21), (2, 22), (2, 23)],
        3: [],
    }
    wanted = 2
    assert frame.where("id > 20").agg(F.sum("id")).collect()[0][0] == 66
    assert "BatchScan" in frame._jdf.queryExecution().executedPlan().toString()
