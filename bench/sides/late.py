"""Both sides of `bench late` in one session, in turn: the query by hand, and through Headwater."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import driver_memory_mb, tell
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Late, Pipeline
from headwater.connectors import parquet
from headwater.local.jars import JarSet
from headwater.runtime.session import open_session
from headwater.settings import load

arguments = json.loads(sys.argv[1])
KEYS = 1_000
SCHEMA = "device string, at timestamp, celsius double"
START = 1_767_268_800_000
BASE = Path.cwd()
spark = open_session(load(BASE), [JarSet.DELTA])


def write_input(name: str, rows: int, files: int, span_s: int, *, late_share: float = 0.0) -> None:
    """Signals in order, one file per batch; behind the first quarter some are 20 minutes old."""
    for number in range(files):
        part = spark.range(rows * number // files, rows * (number + 1) // files, numPartitions=1)
        moment = F.lit(START) + (F.col("id") * (span_s * 1000) / rows).cast("long")
        is_late = (F.col("id") % 10_000 < late_share * 10_000) & (F.col("id") > rows // 4)
        part.select(
            F.concat(F.lit("dev"), F.col("id") * 7919 % KEYS).alias("device"),
            F.timestamp_millis(F.when(is_late, moment - 1_200_000).otherwise(moment)).alias("at"),
            (F.col("id") % 400 / 10).alias("celsius"),
        ).write.parquet(str(BASE / "written" / name / f"{number:03}"))
    # A stream reads one folder, in the order of the files' times.
    target = BASE / name
    target.mkdir()
    for number in range(files):
        (file,) = (BASE / "written" / name / f"{number:03}").glob("*.parquet")
        shutil.move(file, target / f"{number:03}.parquet")
        os.utime(target / f"{number:03}.parquet", (number + 1, number + 1))


def counts(signals: DataFrame) -> DataFrame:
    return signals.groupBy(F.window("at", "10 seconds"), "device").count()


def by_hand(
    name: str, files: int, *, mode: str, lateness: str = "", repeats: bool = False
) -> float:
    """`repeats`: what a batch that runs again appends is there twice, unlike in our sink."""
    # A name of its own: Delta remembers the log of a table that was removed.
    folder = BASE / f"plain{len(told)}"
    delay = lateness or "10 minutes"
    frame = counts(
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", files)
        .parquet(str(BASE / name))
        .withWatermark("at", delay)
    )

    def append(rows: DataFrame, batch: int) -> None:
        writer = rows.write.format("delta").mode("append")
        if not repeats:
            writer = writer.option("txnAppId", folder.name).option("txnVersion", batch)
        writer.save(str(folder / "table"))

    writer = frame.writeStream.outputMode(mode).option(
        "checkpointLocation", str(folder / "checkpoint")
    )
    if mode == "append":
        writer = writer.format("delta").option("path", str(folder / "table"))
    else:
        writer = writer.foreachBatch(append)
    query = writer.trigger(availableNow=True).start()
    began = time.perf_counter()
    query.awaitTermination()
    seconds = time.perf_counter() - began
    told.append(query.recentProgress)
    shutil.rmtree(folder, ignore_errors=True)
    return seconds


def through_headwater(
    name: str, files: int, *, late: str | Late, meanwhile: Callable[[Any], None] | None = None
) -> float:
    app = Pipeline(f"late{len(told)}")
    app.source(
        "signals",
        parquet(str(BASE / name)),
        schema=SCHEMA,
        event_time="at",
        watermark="10 minutes",
        max_per_batch=f"{files} files",
    )
    app.table(name="result", reads={"signals": "signals"}, late=late, mode="append")(counts)
    run = app.start(trigger="available now")
    # What is compared is how fast rows pass; how fast a query starts is `bench start`.
    began = time.perf_counter()
    if meanwhile is not None:
        meanwhile(run["result"])
    run.await_termination()
    run.stop()
    seconds = time.perf_counter() - began
    run.raise_failure()
    kept = BASE / f".headwater/{app.name}/tables/result__late"
    late_rows.append(spark.read.format("delta").load(str(kept)).count() if kept.exists() else 0)
    # Spark may still be removing old state there.
    shutil.rmtree(BASE / ".headwater" / app.name, ignore_errors=True)
    told.append(run["result"].recent_progress)
    return seconds


late_rows: list[int] = []
told: list[Any] = []


def pairs(one: Callable[[], float], other: Callable[[], float], count: int) -> list[float]:
    """Ratios of the times of `other` to `one`; which begins changes from pair to pair."""
    one(), other()
    ratios = []
    for number in range(count):
        if number % 2:
            theirs, mine = other(), one()
        else:
            mine, theirs = one(), other()
        print(f"{mine:.2f} s | {theirs:.2f} s", file=sys.stderr, flush=True)
        ratios.append(theirs / mine)
    return ratios


def capture() -> None:
    rows, files, count = arguments["rows"], 5, arguments["pairs"]
    results: dict[str, Any] = {}
    write_input("clean", rows, files, 5_400)
    write_input("late", rows, files, 5_400, late_share=0.01)
    # Every policy measures the lateness of a source; `drop` does nothing beyond that and counting.
    cases = (
        ("measured", "clean", "drop"),
        ("clean", "clean", "capture"),
        ("late", "late", "capture"),
    )
    for case, name, policy in cases:
        results[case] = pairs(
            lambda name=name, policy=policy: through_headwater(name, 1, late=policy),  # type: ignore[misc]
            lambda name=name: by_hand(name, 1, mode="append"),  # type: ignore[misc]
            count,
        )
    results["captured"] = late_rows[-1]
    tell(**results)


def panes() -> None:
    rows, files, count = arguments["rows"], arguments["rows"] // 250_000, arguments["pairs"]
    write_input("panes", rows, files, files * 920)
    refire = Late.refire("10 minutes")
    ratios = pairs(
        lambda: through_headwater("panes", 1, late=refire),
        lambda: by_hand("panes", 1, mode="update", lateness="20 minutes"),
        count,
    )
    updated = [
        sum(o["numRowsUpdated"] for o in p["stateOperators"]) for p in told[-1] if p["numInputRows"]
    ]
    tell(ratios=ratios, updated=statistics.median(updated))  # type: ignore[arg-type]


def small_batches() -> None:
    files = arguments["batches"]
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", 2 * files)
    write_input("small", files * 10_000, files, files * 60)
    by_hand("small", 1, mode="update", lateness="20 minutes", repeats=True)
    plain = statistics.median(p["durationMs"]["triggerExecution"] for p in _data(told[-1]))
    memory: list[float] = []

    def weigh(query: Any) -> None:
        """Both times while it runs: the end frees what is open."""
        for batches in (files // 2, files - 5):
            while len(query.recent_progress) < batches:
                time.sleep(0.1)
            memory.append(driver_memory_mb(spark))

    through_headwater("small", 1, late=Late.refire("10 minutes"), meanwhile=weigh)
    mine = [p["durationMs"]["triggerExecution"] for p in _data(told[-1])]
    assert len(mine) == files, len(mine)
    half = len(mine) // 2
    tell(
        plain_ms=plain,
        first_ms=statistics.median(mine[:half]),
        last_ms=statistics.median(mine[half:]),
        memory_mb=memory[1] - memory[0],
    )


def _data(progress: Any) -> list[Any]:
    return [p for p in progress if p["numInputRows"]]


{"capture": capture, "panes": panes, "small": small_batches}[arguments["what"]]()
spark.stop()
