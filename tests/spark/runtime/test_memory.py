"""What has ended is let go of, on both sides of the bridge between Python and Java."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import csv, queue
from headwater.dstream import SteppedClock, StreamingContext
from headwater.local.processes import wait_until
from headwater.testing import Harness, add, check, process


def test_a_stopped_pipeline_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    sites = tmp_path / "sites.csv"
    sites.write_text("device,site\nd1,Oslo\n")
    app = Pipeline("passing")
    app.source(
        "signals",
        queue([[]]),
        schema="device string, at timestamp",
        event_time="at",
        watermark="1 minute",
    )
    app.lookup("sites", csv(str(sites)), schema="device string, site string", reload="1 hour")

    @app.table(mode="complete", unbounded_state=True)
    def per_site(signals: DataFrame, sites: DataFrame) -> DataFrame:
        return signals.join(sites, "device").groupBy("site").agg(F.count("*").alias("signals"))

    def run() -> None:
        Harness(app, spark=spark).run(
            add("signals", [("d1", "2026-01-01 12:00:00")]),
            process(),
            check("per_site", [("Oslo", 1)]),
        )

    assert left_behind(spark, run) == []


def test_a_stopped_dstream_program_leaves_nothing_behind(spark: SparkSession) -> None:
    def run() -> None:
        clock = SteppedClock(0)
        context = StreamingContext(spark.sparkContext, 1)
        context.useClock(clock)
        seen: list[int] = []
        context.queueStream([[1, 2], [3]]).foreachRDD(lambda rdd: seen.append(rdd.count()))
        context.start()
        for batch in (1, 2):
            clock.advance(1)
            assert wait_until(lambda so_far=batch: len(seen) == so_far, timeout_s=300)
        context.stop(stopSparkContext=False)
        assert seen == [2, 1]

    assert left_behind(spark, run) == []


def left_behind(spark: SparkSession, run: Callable[[], None]) -> list[object]:
    """The Python objects that Java still may call after a run and a search for garbage."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    pool = gateway.gateway_property.pool.dict

    def settled() -> dict[str, object]:
        gc.collect()
        spark._jvm.System.gc()  # type: ignore[union-attr]
        return dict(pool)

    before = settled()
    run()

    def left() -> list[object]:
        return [found for name, found in settled().items() if name not in before]

    wait_until(lambda: not left(), timeout_s=300)
    return left()
