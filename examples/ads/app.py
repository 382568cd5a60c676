"""Which ads were clicked within an hour of being shown: a join of two streams."""

from __future__ import annotations

import datetime as dt

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import queue

ads = Pipeline("ads")


def at(clock: str) -> dt.datetime:
    return dt.datetime.fromisoformat(f"2026-01-01T{clock}:00+00:00")


ads.source(
    "impressions",
    queue(
        [
            [("sofa", at("12:00")), ("lamp", at("12:05"))],
            [("desk", at("13:10")), ("rug", at("13:30"))],
            [("sofa", at("15:00"))],
        ]
    ),
    schema="ad string, shown_at timestamp",
    event_time="shown_at",
    watermark="10 minutes",
)
ads.source(
    "clicks",
    queue(
        [
            [("sofa", at("12:20"))],
            [("lamp", at("13:20")), ("desk", at("13:40"))],
            [("lamp", at("12:10")), ("sofa", at("15:20"))],
        ]
    ),
    schema="clicked_ad string, clicked_at timestamp",
    event_time="clicked_at",
    watermark="20 minutes",
)


@ads.table
def shown(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    """Every impression with its click. One that was not clicked appears when the watermark has
    ruled a click out: an hour after it was shown, and 20 minutes for clicks that come late."""
    in_time = F.expr(
        "clicked_ad = ad AND clicked_at BETWEEN shown_at AND shown_at + INTERVAL 1 HOUR"
    )
    joined = impressions.join(clicks, in_time, "left_outer")
    return joined.select("ad", "shown_at", "clicked_at")
