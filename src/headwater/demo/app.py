"""A fleet of devices: every signal kept once, aggregates per device and site in PostgreSQL,
readings scored by a baseline that keeps learning, sensors that are stuck, devices that are
silent."""

from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import csv, kafka, postgres
from headwater.demo import baselines
from headwater.demo.silence import GROUPS, SILENCE_COLUMNS, Silence

TOPIC = "demo_signals"
ANOMALIES = "demo_anomalies"
MINUTES, TRENDS, ALERTS = "demo_device_minutes", "demo_site_trends", "demo_alerts"
SITES = Path(__file__).with_name("sites.csv")
SIGNAL = "id bigint, device string, at timestamp, celsius double"
ANOMALY = (
    "id bigint, device string, site string, at timestamp, arrived timestamp, celsius double, "
    "expected double, off double, model_version bigint"
)
TOO_FAR = 6.0
"""So many times the usual spread away from what is expected is an anomaly."""

demo = Pipeline("demo")

demo.source(
    "signals",
    kafka(TOPIC, fields=("timestamp",)),
    schema=SIGNAL,
    event_time="at",
    watermark="10 seconds",
    max_ahead="1 minute",
)
# The same topic with more patience: what is kept for good waits for rows that are minutes late.
demo.source(
    "records",
    kafka(TOPIC),
    schema=SIGNAL,
    event_time="at",
    watermark="10 minutes",
    max_ahead="1 minute",
)
demo.lookup("sites", csv(str(SITES)), schema="device string, site string")


@demo.view
def readings(signals: DataFrame, sites: DataFrame) -> DataFrame:
    known = signals.withColumn("arrived", F.col("_kafka.timestamp")).drop("_kafka")
    return known.join(F.broadcast(sites), "device", "left")


@demo.table(trigger="10 seconds")
def raw(records: DataFrame, sites: DataFrame) -> DataFrame:
    """Every signal once, in a managed Delta table."""
    once = records.dropDuplicatesWithinWatermark(["id"])
    return once.join(F.broadcast(sites), "device", "left")


@demo.table(into=postgres(MINUTES), key=["device", "minute"], trigger="20 seconds")
def device_minutes(readings: DataFrame) -> DataFrame:
    """Averages of every minute, as they are so far."""
    return (
        readings.groupBy(F.window("at", "1 minute"), "device")
        .agg(
            F.max("site").alias("site"),
            F.avg("celsius").alias("celsius"),
            F.count("*").alias("readings"),
        )
        .select("device", F.col("window.start").alias("minute"), "site", "celsius", "readings")
    )


@demo.table(
    into=postgres(TRENDS),
    key=["site", "begin"],
    late="allow 1 minute",
    trigger="20 seconds",
)
def site_trends(readings: DataFrame) -> DataFrame:
    """Averages over half a minute, anew every ten seconds; late readings correct them."""
    return (
        readings.groupBy(F.window("at", "30 seconds", "10 seconds"), "site")
        .agg(F.avg("celsius").alias("celsius"), F.count("*").alias("readings"))
        .select("site", F.col("window.start").alias("begin"), "celsius", "readings")
    )


demo.model(
    trained_on="raw",
    every="20 seconds",
    schema=baselines.COLUMNS,
    evaluate=baselines.closeness,
    history=f"{baselines.LEARNT_FROM_S:.0f} seconds of at",
    name="baseline",
)(baselines.learnt)


@demo.view
def scored(readings: DataFrame, baseline: DataFrame) -> DataFrame:
    """Readings beside what their device's baseline expects, in the JVM; none before the first."""
    expected, usual = baselines.expected(F.col("at")), baselines.usual(F.col("at"))
    known = readings.join(F.broadcast(baseline), "device").withColumn("expected", expected)
    return known.withColumn("off", (F.col("celsius") - F.col("expected")) / usual)


@demo.table(into=kafka(ANOMALIES, create=True), key="device", trigger="1 second")
def anomalies(scored: DataFrame) -> DataFrame:
    """Readings far from what was expected, for those who act on them at once."""
    columns = ["id", "device", "site", "at", "arrived", "celsius", "expected", "off"]
    return scored.where(F.abs("off") > TOO_FAR).select(*columns, "model_version")


demo.source("found", kafka(ANOMALIES), schema=ANOMALY, event_time="arrived")


@demo.table(into=postgres(ALERTS), trigger="1 second")
def alerts(found: DataFrame) -> DataFrame:
    """The same for those who ask later, read from the topic: readings are scored once."""
    return found


@demo.table(trigger="20 seconds")
def stuck(readings: DataFrame) -> DataFrame:
    """Devices that said the same again and again for four seconds."""
    return (
        readings.groupBy(F.window("at", "4 seconds"), "device", "site")
        .agg(
            F.min("celsius").alias("celsius"),
            F.max("celsius").alias("highest"),
            F.count("*").alias("readings"),
        )
        .where((F.col("celsius") == F.col("highest")) & (F.col("readings") >= 5))
        .select("device", "site", F.col("window.start").alias("since"), "celsius", "readings")
    )


@demo.table(trigger="20 seconds")
def silent(signals: DataFrame) -> DataFrame:
    """Devices that were not heard of for a while, by a timer of the event time."""
    group = F.pmod(F.xxhash64("device"), F.lit(GROUPS))
    found = (
        signals.select(group.alias("group"), "device", F.unix_millis("at").alias("ms"))
        .groupBy("group")
        .transformWithStateInPandas(
            statefulProcessor=Silence(),
            outputStructType=SILENCE_COLUMNS,
            outputMode="append",
            timeMode="EventTime",
        )
    )
    return found.select("device", _moment(F.col("since")).alias("since"))


def _moment(milliseconds: Column) -> Column:
    return F.timestamp_millis(milliseconds)
