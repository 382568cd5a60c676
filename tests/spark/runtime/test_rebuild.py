"""Tables computed anew from their earliest input, with those that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json
from headwater.errors import RebuildImpossible
from headwater.events import silent
from headwater.runtime.rebuilding import Rebuilt, rebuild, tables_to_rebuild
from headwater.settings import Settings

KNOWN = {"factor": 1}
"""What the function knew at first, and knows better later."""


def give(folder: Path, name: str, *numbers: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / f"{name}.json").write_text("".join(f'{{"n": {n}}}\n' for n in numbers))


def application(folder: Path) -> Pipeline:
    app = Pipeline("app", settings=Settings(folder=folder))
    app.source("rows", json("in"), schema="n long", max_per_batch="1 file")

    @app.table
    def scaled(rows: DataFrame) -> DataFrame:
        return rows.select((F.col("n") * KNOWN["factor"]).alias("n"))

    app.table(name="copied")(lambda scaled: scaled)
    app.table(name="filed", into=json("out"))(lambda rows: rows)
    return app


def rebuilt(spark: SparkSession, app: Pipeline, table: str) -> list[Rebuilt]:
    plan = app.plan()
    specs = {spec.name: spec for spec in plan.queries}
    names = tables_to_rebuild(plan.graph, table, {n: s.mode for n, s in specs.items()})
    chosen = [specs[name] for name in names]
    others = [spec for name, spec in specs.items() if name not in names]
    return rebuild(spark, plan.graph, app.settings, chosen, upstream=others, report=silent)


def stored(spark: SparkSession, folder: Path, table: str) -> list[Any]:
    frame = spark.read.format("delta").load(str(folder / ".headwater/app/tables" / table))
    return sorted(row.n for row in frame.collect())


def test_a_table_and_its_readers_are_made_anew_and_go_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(tmp_path, "1", 1, 2)
    give(tmp_path, "2", 3)
    app = application(tmp_path)
    # A table that reads another finds what that one has written before.
    app.refresh(tables=["scaled"])
    app.refresh()
    monkeypatch.setitem(KNOWN, "factor", 10)
    # The checkpoint is damaged: this is what a rebuild is for.
    (tmp_path / ".headwater/app/checkpoints/scaled/offsets/1").write_text("")
    done = rebuilt(spark, application(tmp_path), "scaled")
    assert [one.table for one in done] == ["scaled", "copied"]
    assert stored(spark, tmp_path, "scaled") == stored(spark, tmp_path, "copied") == [10, 20, 30]
    assert all(Path(place).exists() for one in done for place in one.kept)
    assert not (tmp_path / ".headwater/app/rebuild").exists()

    give(tmp_path, "3", 4)
    application(tmp_path).refresh(tables=["scaled"])
    application(tmp_path).refresh(tables=["copied"])
    assert stored(spark, tmp_path, "copied") == [10, 20, 30, 40]


def test_rows_in_another_system_are_not_made_anew(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path, "1", 1)
    with pytest.raises(RebuildImpossible, match="run --fresh filed"):
        rebuilt(spark, application(tmp_path), "filed")
