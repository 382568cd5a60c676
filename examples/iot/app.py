"""The application of `headwater demo`, with results in PostgreSQL as well; see README.md."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import postgres
from headwater.demo.app import anomalies, demo, device_minutes

iot = Pipeline("iot")
iot.include(demo)


@iot.table(into=postgres("device_minutes"), key=["device", "minute"], mode="update")
def served_minutes(readings: DataFrame) -> DataFrame:
    return device_minutes(readings)


@iot.table(into=postgres("site_trends"), key=["site", "begin"], late="allow 1 minute")
def site_trends(readings: DataFrame) -> DataFrame:
    """Averages over half a minute, anew every ten seconds; late readings correct them."""
    return (
        readings.groupBy(F.window("at", "30 seconds", "10 seconds"), "site")
        .agg(F.avg("celsius").alias("celsius"), F.count("*").alias("readings"))
        .select("site", F.col("window.start").alias("begin"), "celsius", "readings")
    )


@iot.table(into=postgres("anomalies"), trigger="1 second")
def served_anomalies(scored: DataFrame) -> DataFrame:
    return anomalies(scored)
