"""The whole storage on a real HDFS while drivers are killed: tables, state, late rows, lease."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.connectors.far_paths import FarPath
from headwater.local import services

APP = """
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json, parquet

app = Pipeline("app")
app.source(
    "rows",
    json("in"),
    schema="id long, at timestamp",
    event_time="at",
    watermark="1 minute",
    max_per_batch="1 file",
)
app.table(name="raw")(lambda rows: rows)
app.table(name="copies", into=parquet("{files}"))(lambda rows: rows)


@app.table(key="minute", mode="update")
def minutes(rows):
    counted = rows.groupBy(F.window("at", "1 minute")).count()
    return counted.select(F.col("window.start").alias("minute"), "count")
"""
FILES = 5
LATE = 3
"""The file whose second row is older than the watermark."""


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[str]:
    services.up(tmp_path / "hdfs", "hdfs")
    yield services.connection(tmp_path / "hdfs", "hdfs")["storage"]
    services.down(tmp_path / "hdfs", "hdfs")


def add(folder: Path, number: int) -> None:
    """Two rows of one minute; files are read in the order of their times."""
    moments = [f"2026-01-01T12:{number:02}:00Z", f"2026-01-01T12:{number:02}:30Z"]
    if number == LATE:
        moments[1] = "2026-01-01T12:00:01Z"
    rows = [{"id": 2 * number + n, "at": moment} for n, moment in enumerate(moments)]
    draft = folder / f".{number}"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(draft, (1000 + number, 1000 + number))
    draft.rename(folder / "in" / f"{number:02}.json")


def leave_orphan(spark: SparkSession, files: str) -> FarPath:
    """A file such as a task leaves whose batch did not end."""
    name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    draft = f"{files}/.draft"
    spark.range(5).selectExpr("id", "current_timestamp() AS at").coalesce(1).write.parquet(draft)
    [part] = [one for one in FarPath.of(spark, draft).iterdir() if one.suffix == ".parquet"]
    orphan = FarPath.of(spark, files) / name
    assert part._files.rename(part._path, orphan._path)
    return orphan


def test_kills_change_nothing_of_what_is_stored_in_hdfs(
    tmp_path: Path, storage: str, spark: SparkSession, start: Callable[..., Any]
) -> None:
    files = f"{storage}/files of rows"
    (tmp_path / "app.py").write_text(APP.replace("{files}", files))
    (tmp_path / "in").mkdir()
    for number in range(FILES // 2):
        add(tmp_path, number)
    first = start("run", "--storage", storage)
    first.until("first rows of minutes:")
    first.end(signal.SIGKILL)
    second = start("run", "--storage", storage)
    second.until("minutes: resumed after batch")
    for number in range(FILES // 2, FILES):
        add(tmp_path, number)
    second.until("kept in minutes__late")
    second.end(signal.SIGKILL)
    orphan = leave_orphan(spark, files)
    last = start("run", "--available-now", "--storage", storage)
    assert last.end() == 0, last.output

    def stored(table: str) -> list[tuple[Any, ...]]:
        found = spark.read.format("delta").load(f"{storage}/app/tables/{table}").collect()
        return sorted(tuple(row) for row in found)

    assert [row[0] for row in stored("raw")] == list(range(2 * FILES))
    assert [count for _, count in stored("minutes")] == [
        1 if number == LATE else 2 for number in range(FILES)
    ]
    assert [row[0] for row in stored("minutes__late")] == [2 * LATE + 1]
    assert sorted(spark.read.parquet(files).toPandas()["id"]) == list(range(2 * FILES))
    # What a crashed attempt wrote is gone, and readers other than Spark are told what counts.
    assert not orphan.exists()
    listing = start("files", "copies", "--storage", storage)
    assert listing.end() == 0, listing.output
    listed = [line for line in listing.output.splitlines() if line.startswith("hdfs://")]
    there = [str(one) for one in FarPath.of(spark, files).iterdir() if one.suffix == ".parquet"]
    assert sorted(listed) == sorted(there)
    late = start("late", "--storage", storage)
    assert late.end() == 0, late.output
    assert "table minutes: 1 late row" in late.output
    # Nothing of it is beside the application.
    assert not (tmp_path / ".headwater/app/checkpoints").exists()
