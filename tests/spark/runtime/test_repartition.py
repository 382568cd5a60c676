"""Another number of state partitions on an old checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json, parquet
from headwater.errors import RepartitionImpossible
from headwater.observe.state import state_of
from headwater.runtime.repartitioning import repartition
from headwater.runtime.storage import Files, Storage
from headwater.settings import Settings


def give(folder: Path, name: str, *numbers: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = [f'{{"n": {n}, "at": "2026-01-01T12:00:0{n % 10}Z"}}\n' for n in numbers]
    (folder / "in" / f"{name}.json").write_text("".join(lines))


def application(folder: Path) -> Pipeline:
    app = Pipeline("app", settings=Settings(folder=folder, master="local[2]"))
    app.source("rows", json("in"), schema="n long, at timestamp", event_time="at", watermark="1 m")

    @app.table(key="third", mode="update", unbounded_state=True)
    def thirds(rows: DataFrame) -> DataFrame:
        return rows.groupBy((F.col("n") % 3).alias("third")).agg(F.count(F.lit(1)).alias("n"))

    @app.table(into=parquet("out"))
    def filed(rows: DataFrame) -> DataFrame:
        return rows.dropDuplicates(["n", "at"])

    return app


def repartitioned(spark: SparkSession, app: Pipeline, table: str, partitions: int) -> int:
    (spec,) = app.plan(tables=[table]).queries
    storage = Storage(app.settings.storage_root, "app")
    return repartition(spark, storage, Files(storage, spark), spec, partitions)


def test_state_gets_another_number_of_partitions_and_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    give(tmp_path, "1", *range(6))
    app = application(tmp_path)
    app.refresh()
    batch = repartitioned(spark, app, "thirds", 3)
    storage = Storage(app.settings.storage_root, "app")
    assert len(state_of(spark, storage, "thirds").bytes_on_disk) == 3
    plan = app.plan(tables=["thirds"])
    decisions = plan.tables["thirds"].decisions
    assert decisions is not None
    assert any("keeps its 3 partitions" in note for note in decisions.notes)

    give(tmp_path, "2", 6, 7, 8)
    application(tmp_path).refresh(tables=["thirds"])
    frame = spark.read.format("delta").load(str(tmp_path / ".headwater/app/tables/thirds"))
    assert sorted(tuple(row) for row in frame.collect()) == [(0, 3), (1, 3), (2, 3)]
    after = state_of(spark, storage, "thirds")
    assert (len(after.bytes_on_disk), after.batch > batch) == (3, True)

    with pytest.raises(RepartitionImpossible, match="manifest"):
        repartitioned(spark, app, "filed", 3)
    with pytest.raises(RepartitionImpossible, match="already"):
        repartitioned(spark, app, "thirds", 3)
