"""Every field of a Kafka record, on the console and copied to another topic."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import console, kafka

copies = Pipeline("copies")

# Without a schema the columns are the record's own fields; headers come on request.
copies.source("orders", kafka("orders", fields=True, create=True))


@copies.table(into=console(truncate=False))
def seen(orders: DataFrame) -> DataFrame:
    return orders.select(
        F.col("key").cast("string"),
        F.col("value").cast("string"),
        "topic",
        "partition",
        "offset",
        "timestamp",
        F.expr("transform(headers, h -> h.key || '=' || cast(h.value AS string))").alias("headers"),
    )


@copies.table(into=kafka("orders-copy", create=True))
def copied(orders: DataFrame) -> DataFrame:
    """Key, value, headers and partition as they were. Topic, offset and timestamp of a record are
    the broker's to give, so those of the original travel in one more header."""
    origin = F.to_json(F.struct("topic", "offset", "timestamp")).cast("binary")
    header = F.struct(F.lit("origin").alias("key"), origin.alias("value"))
    had = F.coalesce("headers", F.expr("array()").cast("array<struct<key:string,value:binary>>"))
    return orders.select(
        "key", "value", "partition", F.concat(had, F.array(header)).alias("headers")
    )
