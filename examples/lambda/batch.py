"""The batch layer: the same count over all full segments of the history, from nothing."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from views import SEGMENT, count_views

from headwater import Pipeline
from headwater.connectors import parquet, redis

batch = Pipeline("batch")
batch.source(
    "history",
    parquet("history"),
    schema="page string, at timestamp, segment bigint, offset bigint",
)


@batch.table(into=redis("batch"), key=["page", "hour"], mode="complete")
def batch_views(history: DataFrame) -> DataFrame:
    """Each row says up to which segment it counts."""
    last = F.floor((F.max("offset") + 1) / SEGMENT) - 1
    covered = history.agg(last.alias("covered"))
    return count_views(history.join(covered, F.col("segment") <= F.col("covered")), "covered")
