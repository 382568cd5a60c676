"""Signals of devices, counted in windows of 10 minutes every 5 minutes. One row comes too late.

The same counts in all three output modes: they differ in what is written, never in what counts.
"""

from __future__ import annotations

import datetime as dt

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import queue

event_time = Pipeline("event_time")


def at(clock: str) -> dt.datetime:
    return dt.datetime.fromisoformat(f"2026-01-01T{clock}:00+00:00")


BATCHES = [
    [("dev1", at("12:07")), ("dev2", at("12:08"))],
    [("dev1", at("12:14")), ("dev3", at("12:09"))],
    [("dev3", at("12:15")), ("dev1", at("12:08")), ("dev2", at("12:13")), ("dev2", at("12:21"))],
    [("dev1", at("12:04")), ("dev3", at("12:17"))],
]

event_time.source(
    "signals",
    queue(BATCHES),
    schema="device string, at timestamp",
    event_time="at",
    watermark="10 minutes",
)


@event_time.view
def counts(signals: DataFrame) -> DataFrame:
    windows = F.window("at", "10 minutes", "5 minutes")
    counted = signals.groupBy(windows, "device").count()
    return counted.select(F.col("window.start").alias("start"), "device", "count")


@event_time.table(mode="append")
def closed(counts: DataFrame) -> DataFrame:
    return counts


@event_time.table(mode="update", key=["start", "device"])
def changed(counts: DataFrame) -> DataFrame:
    return counts


@event_time.table(mode="complete", key=["start", "device"])
def whole(counts: DataFrame) -> DataFrame:
    return counts
