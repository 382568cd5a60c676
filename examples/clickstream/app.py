"""One stream of clicks in two batches, written in each of the three output modes."""

from __future__ import annotations

from pyspark.sql import DataFrame

from headwater import Pipeline
from headwater.connectors import console, queue

clickstream = Pipeline("clickstream")
clickstream.source(
    "clicks",
    queue(
        [
            [("facebook", "clicked"), ("youtube", "clicked"), ("linkedin", "viewed")],
            [("facebook", "viewed"), ("linkedin", "viewed")],
        ]
    ),
    schema="page string, action string",
)


@clickstream.view
def actions(clicks: DataFrame) -> DataFrame:
    return clicks.groupBy("action").count()


@clickstream.table(into=console(), mode="append")
def records(clicks: DataFrame) -> DataFrame:
    return clicks


# The state holds a row per action, of which there are two: no watermark is needed to bound it.
@clickstream.table(into=console(), mode="complete", unbounded_state=True)
def all_counts(actions: DataFrame) -> DataFrame:
    return actions


@clickstream.table(into=console(), mode="update", unbounded_state=True)
def changed_counts(actions: DataFrame) -> DataFrame:
    return actions
