"""State that is uploaded as changes (the default) against snapshots: time of a batch, of its upload
and of a restart, which pays for the other two: it is told and has no goal.

A count by key over 200,000 keys, then 1,000 changed keys per batch. Both sides run in one session.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.figures import Figure, alternate, figure
from headwater import Pipeline
from headwater.connectors import foreach_batch, parquet
from headwater.runtime.session import open_session
from headwater.settings import Settings

KEYS = 200_000
CHANGED = 1_000
BATCHES = 30
SETTLED = 5
"""Batches of which none counts: code that is compiled, files that are merged for the first time."""
SETTING = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = open_session(Settings(folder), [])
        try:
            _write_input(spark, folder)
            _run(spark, folder / "warm_up", has_changelog=True)
            results = alternate(
                lambda: _run(spark, folder / f"changes_{time.time_ns()}", has_changelog=True),
                lambda: _run(spark, folder / f"snapshots_{time.time_ns()}", has_changelog=False),
                pairs,
            )
        finally:
            spark.stop()

    def ratios(what: str) -> list[float]:
        return [changes[what] / snapshots[what] for changes, snapshots in results]

    figures = [
        figure("batch with changelog, to snapshots", ratios("batch_ms"), 1.1, at_least=False),
        figure("upload with changelog, to snapshots", ratios("commit_ms"), 1.0, at_least=False),
    ]
    return figures, {"pairs": results}


def _write_input(spark: SparkSession, folder: Path) -> None:
    for number in range(BATCHES + 2):
        keys = KEYS if number == 0 else CHANGED
        rows = spark.range(0, keys, 1, 1).select((F.col("id") * (number + 7) % KEYS).alias("key"))
        rows.write.parquet(str(folder / f"input/{number:03}"))


def _run(spark: SparkSession, folder: Path, *, has_changelog: bool) -> dict[str, float]:
    spark.conf.set(SETTING, str(has_changelog).lower())
    inbox = folder / "in"
    inbox.mkdir(parents=True)
    for number in range(BATCHES + 1):
        _hand_in(folder, number)
    batches = _processed(folder)[SETTLED:]
    began = time.perf_counter()
    _hand_in(folder, BATCHES + 1)
    _processed(folder)
    restart_ms = (time.perf_counter() - began) * 1000
    return {
        "batch_ms": statistics.median(p["durationMs"]["triggerExecution"] for p in batches),
        "commit_ms": statistics.median(p["stateOperators"][0]["commitTimeMs"] for p in batches),
        "restart_ms": restart_ms,
    }


def _hand_in(folder: Path, number: int) -> None:
    """A file of its own name: Spark reads one per batch, in the order of their times."""
    (part,) = (folder.parent / f"input/{number:03}").glob("*.parquet")
    (folder / f"in/{number:03}.parquet").write_bytes(part.read_bytes())


def _processed(folder: Path) -> list[Any]:
    """The progress of every batch of an available-now run."""
    app = Pipeline("counts", settings=Settings(folder))
    app.source("rows", parquet("in"), schema="key long", max_per_batch="1 file")

    @app.table(into=foreach_batch(_nowhere), key="key", mode="update", unbounded_state=True)
    def counts(rows: DataFrame) -> DataFrame:
        return rows.groupBy("key").count()

    run = app.start(trigger="available now")
    try:
        run.await_termination()
    finally:
        run.stop()
    run.raise_failure()
    return list(run["counts"].recent_progress)


def _nowhere(frame: DataFrame, batch: int) -> None:
    frame.write.format("noop").mode("append").save()
