"""Signals of a fleet of devices: every one kept, and averages per device and minute."""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import csv, kafka

TOPIC = "demo_signals"
SITES = Path(__file__).with_name("sites.csv")

demo = Pipeline("demo")

demo.source(
    "signals",
    kafka(TOPIC),
    schema="id bigint, device string, at timestamp, celsius double",
    event_time="at",
    watermark="10 seconds",
)
demo.lookup("sites", csv(str(SITES)), schema="device string, site string")


@demo.view
def readings(signals: DataFrame, sites: DataFrame) -> DataFrame:
    return signals.join(F.broadcast(sites), "device", "left")


@demo.table(trigger="1 second")
def raw(readings: DataFrame) -> DataFrame:
    """Every reading, in a managed Delta table."""
    return readings


@demo.table(key=["device", "minute"], mode="update", trigger="2 seconds")
def device_minutes(readings: DataFrame) -> DataFrame:
    return (
        readings.groupBy(F.window("at", "1 minute"), "device", "site")
        .agg(F.avg("celsius").alias("celsius"), F.count("*").alias("readings"))
        .select("device", F.col("window.start").alias("minute"), "site", "celsius", "readings")
    )
