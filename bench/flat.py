"""Two thousand small batches into four sinks: the driver's memory, the ledgers and the checkpoints
stay as they are.

Not a ratio: each figure is what is added per 1,000 batches, as the slope of samples that are
taken every 100 batches, once checkpoints have reached the batches that Spark keeps.
"""

from __future__ import annotations

import datetime as dt
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.figures import Figure, figure, slope
from bench.sides.measuring import driver_memory_mb
from bench.soak import postgres_of
from headwater import Pipeline
from headwater.connectors import kafka, parquet, postgres, rate
from headwater.local import services
from headwater.local.jars import JarSet
from headwater.runtime.session import open_session
from headwater.settings import Settings

BATCHES = 2_000
EVERY = 100
SETTLED = 900
"""Batches before the first sample that counts: Spark compiles a piece of code for every watermark
and keeps 1,000 pieces; a checkpoint keeps 100 batches."""
_LOOKS = 6
TRIGGER = "500 milliseconds"
"""For all tables: the quick ones would take the cores from the slow ones, and run far ahead."""
MEMORY_MB = 5.0
CHECKPOINT_KB = 50.0
BATCH_MS = 50.0
"""What counts as flat, per 1,000 batches."""


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL runs as another user.
        services.up(folder, "kafka")
        services.up(folder, "postgres")
        connections = {
            system: services.connection(folder, system) for system in ("kafka", "postgres")
        }
        spark = open_session(Settings(folder), [JarSet.KAFKA, JarSet.POSTGRES])
        try:
            samples = _samples(_pipeline(folder, connections), folder, spark)
            ledger = _ledger_rows(folder)
        finally:
            spark.stop()
            services.down(folder, "kafka")
            services.down(folder, "postgres")
    counted = [sample for sample in samples if sample["batch"] >= SETTLED]

    def grows(what: str) -> float:
        return slope([(sample["batch"], sample[what]) for sample in counted]) * 1000

    figures = [
        figure("driver memory", [grows("memory_mb")], MEMORY_MB, at_least=False, unit=" MB"),
        figure("time of a batch", [grows("batch_ms")], BATCH_MS, at_least=False, unit=" ms"),
        figure("rows of the ledger", [ledger], 1, at_least=False),
    ]
    for table in TABLES:
        grown = [grows(f"{table}_kb")]
        figures.append(
            figure(f"checkpoint of {table}", grown, CHECKPOINT_KB, at_least=False, unit=" kB")
        )
    return figures, {"samples": samples}


TABLES = ("in_delta", "in_files", "in_kafka", "in_postgres")


def _pipeline(folder: Path, connections: dict[str, Any]) -> Pipeline:
    app = Pipeline("flat")
    app.use_settings(Settings(folder, connections=connections))
    app.source(
        "rows",
        rate(rows_per_batch=20, start=dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        event_time="timestamp",
        watermark="10 seconds",
    )
    app.table(name="in_delta", trigger=TRIGGER)(lambda rows: rows)
    app.table(name="in_files", into=parquet("files"), trigger=TRIGGER)(lambda rows: rows)
    app.table(name="in_kafka", into=kafka("flat", create=True, partitions=2), trigger=TRIGGER)(
        lambda rows: rows.select(F.col("value").cast("string").alias("value"))
    )

    @app.table(into=postgres("flat"), key=["begin", "device"], mode="update", trigger=TRIGGER)
    def in_postgres(rows: DataFrame) -> DataFrame:
        device = (F.col("value") % 7).alias("device")
        counts = rows.groupBy(F.window("timestamp", "10 seconds"), device).count()
        return counts.select(F.col("window.start").alias("begin"), "device", "count")

    return app


def _samples(app: Pipeline, folder: Path, spark: Any) -> list[dict[str, float]]:
    samples: list[dict[str, float]] = []
    run = app.start()
    try:
        for due in range(EVERY, BATCHES + 1, EVERY):
            while min(run[table].last_batch or 0 for table in TABLES) < due:
                run.raise_failure()
                time.sleep(0.5)
            times = [
                p["durationMs"]["triggerExecution"]
                for table in TABLES
                for p in run[table].recent_progress
            ]
            sample: dict[str, float] = {
                "batch": due,
                "memory_mb": _least_memory_mb(spark),
                "batch_ms": statistics.median(times),
            }
            for table in TABLES:
                sample[f"{table}_kb"] = _size_kb(folder / f".headwater/flat/checkpoints/{table}")
            # Grows with the files that it lists, and is compacted: shown, without a goal.
            sample["manifest_kb"] = _size_kb(folder / "files/_spark_metadata")
            print(", ".join(f"{key} {value:.5g}" for key, value in sample.items()), flush=True)
            samples.append(sample)
    finally:
        run.stop()
    run.raise_failure()
    return samples


def _least_memory_mb(spark: Any) -> float:
    """Of several looks: at any moment the batches that run hold tens of MB, and what they left is
    released a little after a collection found it."""
    looks = []
    for _ in range(_LOOKS):
        looks.append(driver_memory_mb(spark))
        time.sleep(1)
    return min(looks)


def _size_kb(folder: Path) -> float:
    """What a folder holds; files may go while they are counted."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total / 1024


def _ledger_rows(local: Path) -> int:
    from headwater.ledger.databases import LEDGER

    with postgres_of(local) as database:
        return len(database.execute(f"SELECT 1 FROM {LEDGER}").fetchall())
