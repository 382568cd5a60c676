"""What both layers compute, written once."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

SEGMENT = 100
"""So many clicks, by their offset in the topic, are one segment."""


def count_views(clicks: DataFrame, *also: str) -> DataFrame:
    """Views per page and hour."""
    hour = F.window("at", "1 hour")
    counted = clicks.groupBy("page", hour, *also).agg(F.count("*").alias("views"))
    return counted.select("page", F.col("window.start").alias("hour"), *also, "views")
