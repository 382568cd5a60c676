"""One Kafka-to-Kafka table, declared once per way of running it."""

from __future__ import annotations

from pyspark.sql import DataFrame

from headwater import Pipeline, Trigger
from headwater.connectors import kafka

latency = Pipeline("latency")
latency.source("pings", kafka("pings", starting="latest", create=True))

WAYS = {
    "micro_batch": {"trigger": "default", "guarantee": None},
    "async_progress": {"trigger": "default", "guarantee": "at_least_once"},
    "continuous": {"trigger": Trigger.continuous("1 second"), "guarantee": None},
    "real_time": {"trigger": Trigger.real_time("5 seconds"), "guarantee": None},
}


def pongs(pings: DataFrame) -> DataFrame:
    return pings.select("key", "value")


# Real time runs in update mode only, which for a table without state means append.
for name, way in WAYS.items():
    sink = kafka(f"pongs-{name}", create=True)
    latency.table(name=name, into=sink, mode="update", **way)(pongs)
