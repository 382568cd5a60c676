"""Going back to a named position."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater import Pipeline
from headwater.connectors import json, parquet
from headwater.errors import (
    BatchUnfinished,
    NoCheckpoint,
    RestoreUnfinished,
    SavepointExists,
    SavepointNotRestorable,
    UnknownSavepoint,
)
from headwater.runtime.savepoints import Savepoints
from headwater.runtime.storage import Storage
from headwater.settings import Settings


def give(folder: Path, *numbers: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = "".join(f'{{"n": {n}}}\n' for n in numbers)
    (folder / "in" / f"{numbers[0]}.json").write_text(lines)


def application(folder: Path, *, with_files: bool = False) -> Pipeline:
    app = Pipeline("app", settings=Settings(folder=folder))
    app.source("numbers", json("in"), schema="n long")
    app.table(name="raw")(lambda numbers: numbers)
    app.table(name="parity", key="odd", mode="update", unbounded_state=True)(
        lambda numbers: numbers.groupBy((numbers.n % 2 == 1).alias("odd")).count()
    )
    if with_files:
        app.table(name="copies", into=parquet("copies"))(lambda numbers: numbers)
    return app


def savepoints(spark: SparkSession, app: Pipeline) -> Savepoints:
    storage = Storage(app.settings.storage_root, app.name)
    return Savepoints(spark, app.settings, storage, app.plan().graph)


def stored(spark: SparkSession, folder: Path, table: str) -> list[tuple[Any, ...]]:
    frame = spark.read.format("delta").load(str(folder / ".headwater/app/tables" / table))
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_a_restored_savepoint_goes_on_as_if_nothing_had_come_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = application(tmp_path)
    give(tmp_path, 1, 2)
    app.refresh()
    saved = savepoints(spark, app).create("first", app.plan().queries)
    assert {table.table: table.batch for table in saved.tables} == {"raw": 0, "parity": 0}
    give(tmp_path, 3, 5)
    (tmp_path / "in" / "bad.json").write_text("no json\n")
    app.refresh()
    assert stored(spark, tmp_path, "parity") == [(False, 1), (True, 3)]
    assert len(stored(spark, tmp_path, "numbers__rejected")) == 1

    savepoints(spark, app).restore("first", app.plan().queries)
    assert stored(spark, tmp_path, "raw") == [(1,), (2,)]
    assert stored(spark, tmp_path, "parity") == [(False, 1), (True, 1)]
    app.refresh()
    assert stored(spark, tmp_path, "raw") == [(1,), (2,), (3,), (5,)]
    assert stored(spark, tmp_path, "parity") == [(False, 1), (True, 3)]
    # What was rejected since is found again, once.
    assert len(stored(spark, tmp_path, "numbers__rejected")) == 1
    assert [known.name for known in savepoints(spark, app).all()] == ["first"]


def test_a_restore_that_died_half_way_goes_on_and_nothing_runs_before(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = application(tmp_path)
    give(tmp_path, 1, 2)
    app.refresh()
    mine, queries = savepoints(spark, app), app.plan().queries
    mine.create("first", queries)
    mine.create("other", queries)
    give(tmp_path, 3, 5)
    app.refresh()
    taken_back = Savepoints._taken_back

    def dies(self: Savepoints, table: str, path: str, version: int) -> list[str]:
        if table == "parity":
            raise OSError("the disk is away")
        return taken_back(self, table, path, version)

    with monkeypatch.context() as sabotage:
        sabotage.setattr(Savepoints, "_taken_back", dies)
        with pytest.raises(OSError, match="away"):
            mine.restore("first", queries)
    # The checkpoint of parity is an old one by now, its rows are not: a run would count twice.
    with pytest.raises(RestoreUnfinished, match="raw"):
        app.refresh()
    with pytest.raises(RestoreUnfinished):
        mine.restore("other", queries)
    assert "raw: was restored before" in mine.restore("first", queries)
    app.refresh()
    assert stored(spark, tmp_path, "raw") == [(1,), (2,), (3,), (5,)]
    assert stored(spark, tmp_path, "parity") == [(False, 1), (True, 3)]


def test_what_cannot_be_taken_back_is_refused_before_anything_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = application(tmp_path, with_files=True)
    give(tmp_path, 1, 2)
    mine, queries = savepoints(spark, app), app.plan().queries
    with pytest.raises(NoCheckpoint):
        mine.create("first", queries)
    app.refresh()
    mine.create("first", queries)
    mine.restore("first", queries)
    with pytest.raises(SavepointExists):
        mine.create("first", queries)
    give(tmp_path, 3, 5)
    app.refresh()
    with pytest.raises(SavepointNotRestorable, match="copies has written"):
        mine.restore("first", queries)
    assert stored(spark, tmp_path, "raw") == [(1,), (2,), (3,), (5,)]
    with pytest.raises(UnknownSavepoint, match="first"):
        mine.restore("frist", queries)


def begin(folder: Path, table: str, batch: int) -> None:
    """As if the driver had died in the middle of a batch: its offsets are there, no commit is."""
    offsets = folder / ".headwater/app/checkpoints" / table / "offsets"
    (offsets / str(batch)).write_text((offsets / str(batch - 1)).read_text())


def test_a_batch_that_may_be_in_the_sink_is_never_written_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = application(tmp_path, with_files=True)
    give(tmp_path, 1, 2)
    app.refresh()
    mine, queries = savepoints(spark, app), app.plan().queries
    mine.create("whole", queries)
    begin(tmp_path, "copies", 1)
    with pytest.raises(BatchUnfinished, match="batch 1"):
        mine.create("half", queries)
    with pytest.raises(SavepointNotRestorable, match="batches 1 to 1"):
        mine.restore("whole", queries)


def test_what_another_table_reads_as_a_stream_is_not_taken_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = Pipeline("app", settings=Settings(folder=tmp_path))
    app.source("numbers", json("in"), schema="n long")
    app.table(name="raw")(lambda numbers: numbers)
    app.table(name="copies")(lambda raw: raw)
    give(tmp_path, 1, 2)
    app.refresh()
    mine, queries = savepoints(spark, app), app.plan().queries
    mine.create("first", queries)
    mine.restore("first", queries)
    give(tmp_path, 3)
    app.refresh()
    with pytest.raises(SavepointNotRestorable, match="copies reads raw as a stream"):
        mine.restore("first", queries)


def test_a_savepoint_is_restored_where_the_storage_has_another_path(
    spark: SparkSession, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    app = application(here)
    give(here, 1, 2)
    app.refresh()
    savepoints(spark, app).create("first", app.plan().queries)
    give(here, 3, 5)
    app.refresh()
    shutil.copytree(here, there)
    moved = application(there)
    savepoints(spark, moved).restore("first", moved.plan().queries)
    assert stored(spark, there, "raw") == [(1,), (2,)]
    assert stored(spark, here, "raw") == [(1,), (2,), (3,), (5,)]


def test_a_sink_that_went_on_is_asked_where_the_checkpoint_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = application(tmp_path, with_files=True)
    give(tmp_path, 1, 2)
    app.refresh()
    savepoints(spark, app).create("first", app.plan().queries)
    give(tmp_path, 3, 5)
    app.refresh()
    shutil.rmtree(tmp_path / ".headwater/app/checkpoints")
    with pytest.raises(SavepointNotRestorable, match="was at batch 0 and is at batch 1"):
        savepoints(spark, app).restore("first", app.plan().queries)
