"""The speed layer: clicks are kept as history, and counted per segment as they come."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from views import SEGMENT, count_views

from headwater import Pipeline
from headwater.connectors import kafka, parquet, redis

speed = Pipeline("speed")
speed.source(
    "clicks",
    kafka("clicks", fields=["offset"], create=True),
    schema="page string, at timestamp",
    event_time="at",
    watermark="1 day",
)


@speed.view
def placed(clicks: DataFrame) -> DataFrame:
    segment = F.floor(F.col("_kafka.offset") / SEGMENT)
    return clicks.select("page", "at", segment.alias("segment"), "_kafka.offset")


@speed.table(into=parquet("history"))
def history(placed: DataFrame) -> DataFrame:
    return placed


@speed.table(into=redis("speed"), key=["page", "hour", "segment"], mode="update")
def speed_views(placed: DataFrame) -> DataFrame:
    return count_views(placed, "segment")
