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
from headwater.local.processes import wait_until
from headwater.observe.rows import delta_rows
from headwater.runtime import backfilling
from headwater.runtime.backfilling import Backfilled, backfill
from headwater.runtime.query import QueryState
from headwater.settings import Settings

WAIT_S = 300.0
RATE = {"factor": 1}
"""What the function knew at first, and knows better later."""


def at(hour: int, minute: int = 0) -> dt.datetime:
    return dt.datetime(2026, 1, 1, hour, minute, tzinfo=dt.UTC)


def give(folder: Path, name: str, *moments: dt.datetime) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = "".join(f'{{"at": "{moment.isoformat()}", "n": 1}}\n' for moment in moments)
    (folder / f".{name}").write_text(lines)
    (folder / f".{name}").rename(folder / "in" / f"{name}.json")


def application(folder: Path) -> Pipeline:
    app = Pipeline("app", settings=Settings(folder=folder))
    app.source(
        "rows", json("in"), schema="at timestamp, n long", event_time="at", watermark="1 minute"
    )

    @app.table(key="hour", mode="update")
    def hours(rows: DataFrame) -> DataFrame:
        return (
            rows.withColumn("n", F.when(F.hour("at") == 11, RATE["factor"]).otherwise(1))
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


def totals(folder: Path) -> dict[int, int]:
    found = delta_rows(str(folder / ".headwater/app/tables/hours"), 100)
    return {} if found is None else {row[0].hour: row[1] for row in found.rows}


def test_only_the_range_is_replaced_and_the_stream_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app: Any = application(tmp_path)
    for name, moments in {"a": (at(10), at(11), at(11, 30), at(12)), "b": (at(14),)}.items():
        give(tmp_path, name, *moments)
        app.refresh(tables=["hours"])
    before = {10: 1, 11: 2, 12: 1, 14: 1}
    assert totals(tmp_path) == before

    def come(hour: int) -> None:
        give(tmp_path, str(hour), at(hour))
        assert wait_until(lambda: hour in totals(tmp_path), timeout_s=WAIT_S)

    def meanwhile(*what: Any) -> None:
        come(15)
        replaced(*what)

    replaced = backfilling._replaced
    monkeypatch.setattr(backfilling, "_replaced", meanwhile)
    run = app.start(tables=["hours"])
    try:
        monkeypatch.setitem(RATE, "factor", 10)
        done = filled(spark, app, "hours", at(11), at(12))
        come(16)
        assert run["hours"].state is QueryState.RUNNING
    finally:
        run.stop()
    assert (done.column, done.rows) == ("hour", 1)
    assert totals(tmp_path) == before | {11: 20, 15: 1, 16: 1}


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
