"""Appends that are recognised when they are repeated, by Spark and from the driver."""

import json
from pathlib import Path

import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from headwater.ledger import transactions

APPLICATION = "query/late"


def rows(spark: SparkSession, count: int, *more: str) -> DataFrame:
    window = "struct(at AS start, at + INTERVAL 1 MINUTE AS end) AS window"
    frame = spark.range(count).selectExpr("id", "timestamp_seconds(id) AS at", "'a' AS device")
    return frame.selectExpr("*", window, "array(id) AS ids", *more)


def engine(path: str, version: int) -> str:
    """Who wrote a commit of the table's log."""
    lines = Path(f"{path}/_delta_log/{version:020}.json").read_text().splitlines()
    (found,) = [c for line in lines if (c := json.loads(line).get("commitInfo"))]
    return "Spark" if "Spark" in found.get("engineInfo", "") else "driver"


def test_few_rows_are_committed_from_the_driver_and_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "late")

    def few(frame: DataFrame, version: int) -> int:
        return transactions.append_few(frame, path, application=APPLICATION, version=version)

    def many(frame: DataFrame, version: int) -> int:
        return transactions.append(frame, path, application=APPLICATION, version=version)

    assert transactions.last_version(spark, path, APPLICATION) is None
    assert few(rows(spark, 3), 0) == 3
    assert few(rows(spark, 4), 1) == 4
    assert (few(rows(spark, 9), 1), many(rows(spark, 9), 1), many(rows(spark, 9), 0)) == (0, 0, 0)
    assert many(rows(spark, 5), 4) == 5
    assert few(rows(spark, 2, "true AS is_new"), 5) == 2
    assert few(rows(spark, 1, "true AS is_new"), 6) == 1
    assert transactions.last_version(spark, path, APPLICATION) == 6
    assert transactions.last_version(spark, path, "another") is None
    # Spark makes the table and adds a column to it; else few rows are not worth a job of it.
    written = [engine(path, version) for version in range(5)]
    assert written == ["Spark", "driver", "Spark", "Spark", "driver"]
    found = spark.read.format("delta").load(path)
    assert found.count() == 15
    assert found.where("is_new").count() == 3
    assert found.where("window.start = at and ids[0] = id").count() == 15


def test_a_version_that_is_known_to_be_new_takes_no_look_at_the_log(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "late")

    def jobs(version: int) -> int:
        spark.sparkContext.setJobGroup(f"append {version}", "")
        transactions.append(rows(spark, 9), path, application=APPLICATION, version=version)
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"append {version}"))

    jobs(0)
    assert jobs(1) == 1
    monkeypatch.setattr(transactions, "_append_after", lambda *_: False)
    assert jobs(2) > 1
    assert spark.read.format("delta").load(path).count() == 27


def test_a_version_that_came_from_elsewhere_meanwhile_is_a_conflict(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "late")

    def append(frame: DataFrame, version: int) -> int:
        return transactions.append(frame, path, application=APPLICATION, version=version)

    def overtaken(batches):  # type: ignore[no-untyped-def]
        noted = CommitProperties(app_transactions=[Transaction(APPLICATION, 1)])
        for batch in batches:
            write_deltalake(path, batch, mode="append", commit_properties=noted)
            yield batch

    append(spark.range(3).coalesce(1), 0)
    with pytest.raises(Py4JJavaError, match="ConcurrentTransaction"):
        append(spark.range(5).coalesce(1).mapInArrow(overtaken, "id long"), 1)
    assert spark.read.format("delta").load(path).count() == 8
