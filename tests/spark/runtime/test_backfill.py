"""A range of event time computed again while everything else stays."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import console, json
from headwater.errors import BackfillImpossible, BatchUnfinished
from headwater.runtime.backfilling import Backfilled, backfill
from headwater.settings import Settings

RATE = {"factor": 1}
"""What the function knew at first, and knows better later."""


def at(hour: int, minute: int = 0) -> dt.datetime:
    return dt.datetime(2026, 1, 1, hour, minute, tzinfo=dt.UTC)


def give(folder: Path, name: str, *moments: dt.datetime) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = "".join(f'{{"at": "{moment.isoformat()}", "n": 1}}\n' for moment in moments)
    (folder / "in" / f"{name}.json").write_text(lines)


def application(folder: Path) -> Pipeline:
    app = Pipeline("app", settings=Settings(folder=folder))
    app.source(
        "rows", json("in"), schema="at timestamp, n long", event_time="at", watermark="1 minute"
    )

    @app.table(key="hour", mode="update")
    def hours(rows: DataFrame) -> DataFrame:
        return (
            rows.withColumn("n", F.col("n") * RATE["factor"])
            .groupBy(F.window("at", "1 hour"))
            .agg(F.sum("n").alias("total"))
            .select(F.col("window.start").alias("hour"), "total")
        )

    app.table(name="printed", into=console())(lambda rows: rows)
    app.table(name="doubled")(lambda rows: rows.withColumn("n", F.col("n") * RATE["factor"]))
    app.table(name="everything", mode="complete")(
        lambda rows: rows.groupBy(F.window("at", "1 hour")).count().select("window.start", "count")
    )
    return app


def filled(
    spark: SparkSession, app: Pipeline, table: str, *range: dt.datetime, is_alone: bool = False
) -> Backfilled:
    plan = app.plan(tables=[table])
    query = plan.tables[table].query
    alone = (lambda: None) if is_alone else None
    return backfill(spark, plan.graph, app.settings, query, *range, alone=alone)


def totals(spark: SparkSession, folder: Path) -> dict[int, int]:
    frame = spark.read.format("delta").load(str(folder / ".headwater/app/tables/hours"))
    return {row.hour.hour: row.total for row in frame.collect()}


def test_only_the_range_is_replaced_and_the_stream_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app: Any = application(tmp_path)
    give(tmp_path, "a", at(10), at(11), at(11, 30), at(12))
    app.refresh(tables=["hours"])
    give(tmp_path, "b", at(14))
    app.refresh(tables=["hours"])
    assert totals(spark, tmp_path) == {10: 1, 11: 2, 12: 1, 14: 1}
    monkeypatch.setitem(RATE, "factor", 10)
    done = filled(spark, app, "hours", at(11), at(12))
    assert (done.column, done.rows) == ("hour", 1)
    assert totals(spark, tmp_path) == {10: 1, 11: 20, 12: 1, 14: 1}
    give(tmp_path, "c", at(15))
    app.refresh(tables=["hours"])
    assert totals(spark, tmp_path)[11] == 20
    assert totals(spark, tmp_path)[15] == 10


def test_what_the_stream_still_writes_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    app = application(tmp_path)
    give(tmp_path, "a", at(10), at(12))
    with pytest.raises(BackfillImpossible, match="no batch"):
        filled(spark, app, "hours", at(10), at(11))
    app.refresh(tables=["hours"])
    give(tmp_path, "b", at(12, 30))
    app.refresh(tables=["hours"])
    with pytest.raises(BackfillImpossible, match="still writes"):
        filled(spark, app, "hours", at(10), at(13))
    # The window that begins at 12:00 is still open, though the range ends before the watermark.
    with pytest.raises(BackfillImpossible, match="still writes"):
        filled(spark, app, "hours", at(12), at(12, 5))
    with pytest.raises(BackfillImpossible, match="not before"):
        filled(spark, app, "hours", at(11), at(11))


def test_rows_that_no_watermark_holds_back_are_replaced_between_two_runs_only(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = application(tmp_path)
    give(tmp_path, "a", at(10), at(11), at(12))
    app.refresh(tables=["doubled", "everything"])
    monkeypatch.setitem(RATE, "factor", 10)
    with pytest.raises(BackfillImpossible, match="stop the pipeline first"):
        filled(spark, app, "doubled", at(11), at(12))
    assert filled(spark, app, "doubled", at(11), at(12), is_alone=True).rows == 1
    found = spark.read.format("delta").load(str(tmp_path / ".headwater/app/tables/doubled"))
    assert sorted((row.at.hour, row.n) for row in found.collect()) == [(10, 1), (11, 10), (12, 1)]
    offsets = tmp_path / ".headwater/app/checkpoints/doubled/offsets"
    (offsets / "1").write_text((offsets / "0").read_text())
    with pytest.raises(BatchUnfinished):
        filled(spark, app, "doubled", at(11), at(12), is_alone=True)
    with pytest.raises(BackfillImpossible, match="complete mode"):
        filled(spark, app, "everything", at(10), at(11), is_alone=True)


def test_a_table_that_is_read_as_a_stream_is_left_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = application(tmp_path)
    app.table(name="copies")(lambda doubled: doubled)
    give(tmp_path, "a", at(10), at(12))
    app.refresh(tables=["doubled"])
    with pytest.raises(BackfillImpossible, match="copies reads it as a stream"):
        filled(spark, app, "doubled", at(10), at(11), is_alone=True)
