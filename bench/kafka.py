"""Rows from files into a Kafka topic: exactly once against Spark's own sink, as it comes and with
the options of ours, in one session.

Every pair writes the same rows into new topics, in batches; nothing crashes.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.figures import Figure, alternate, figure
from headwater import Pipeline
from headwater.connectors import kafka, parquet
from headwater.connectors.kafka import create_topic, end_offsets
from headwater.local import services
from headwater.local.jars import JarSet
from headwater.runtime.session import open_session
from headwater.settings import Connection, Settings

ROWS = 1_000_000
FILES = 20
PER_BATCH = "4 files"
_WARM_UPS = 3
SCHEMA = "id long, device string, at timestamp, celsius double"


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        services.up(folder, "kafka")
        spark = open_session(Settings(folder), [JarSet.KAFKA])
        try:
            _readings(spark).write.parquet(str(folder / "in"))
            for number in range(_WARM_UPS):
                _seconds(folder, f"warm_once_{number}", "exactly_once")
                _seconds(folder, f"warm_plain_{number}", "at_least_once")
                _by_hand(spark, folder, f"warm_hand_{number}")
            results = alternate(
                lambda: _seconds(folder, f"once_{time.time_ns()}", "exactly_once"),
                lambda: (
                    _by_hand(spark, folder, f"hand_{time.time_ns()}")
                    | _seconds(folder, f"plain_{time.time_ns()}", "at_least_once", "same_options")
                ),
                pairs,
            )
        finally:
            spark.stop()
            services.down(folder, "kafka")
    ratios = [plain["seconds"] / once["seconds"] for once, plain in results]
    same = [plain["same_options"] / once["seconds"] for once, plain in results]
    figures = [
        figure("exactly-once Kafka to Spark's own sink", ratios, 0.9, at_least=True),
        figure("the same, with the options of ours", same, 0.8, at_least=True),
    ]
    return figures, {"pairs": results, "rows": ROWS}


def _readings(spark: SparkSession) -> DataFrame:
    """Readings as devices of the demo send them: about 80 bytes as JSON."""
    return spark.range(0, ROWS, 1, FILES).select(
        "id",
        F.format_string("dev-%04d", F.col("id") % 1000).alias("device"),
        F.timestamp_millis(F.lit(1_767_225_600_000) + F.col("id")).alias("at"),
        F.round(20 + 5 * F.rand(seed=1), 2).alias("celsius"),
    )


def _by_hand(spark: SparkSession, folder: Path, topic: str) -> dict[str, float]:
    connection = services.connection(folder, "kafka")
    create_topic(Connection("kafka", connection, "bench"), topic, partitions=2)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 4).parquet(f"{folder}/in")
    began = time.perf_counter()
    query = (
        rows.select(F.to_json(F.struct("*")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", connection["bootstrap_servers"])
        .option("topic", topic)
        .option("checkpointLocation", f"{folder}/{topic}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return {"seconds": time.perf_counter() - began}


def _seconds(folder: Path, topic: str, guarantee: str, name: str = "seconds") -> dict[str, float]:
    connection = services.connection(folder, "kafka")
    app = Pipeline(topic)
    app.use_settings(Settings(folder, connections={"kafka": connection}))
    app.source("rows", parquet("in"), schema=SCHEMA, max_per_batch=PER_BATCH)
    into = kafka(topic, create=True, partitions=2)
    app.table(name="written", into=into, guarantee=guarantee)(lambda rows: rows)
    began = time.perf_counter()
    app.refresh()
    seconds = time.perf_counter() - began
    ends = end_offsets(Connection("kafka", connection, "bench"), topic)
    assert sum(ends.values()) == ROWS, ends
    return {name: seconds}
