"""Wrong on purpose: the sink appends a batch again when it comes again."""

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headwater import Pipeline
from headwater.connectors import foreach_batch, queue

app = Pipeline("appends_twice")
app.source("orders", queue([[("ann", 1), ("bob", 2), ("ann", 3)]]), schema="user string, n int")
STORE = Path("orders.jsonl")


def write(frame: DataFrame, batch: int) -> None:
    with open(STORE, "a") as file:
        for row in frame.collect():
            file.write(json.dumps(row.asDict()) + "\n")


def read(spark: SparkSession) -> DataFrame:
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    rows = [(row["user"], row["n"]) for row in map(json.loads, lines)]
    return spark.createDataFrame(rows, "user string, n int")


def clear() -> None:
    STORE.unlink(missing_ok=True)


@app.table(into=foreach_batch(write, read=read, clear=clear))
def stored(orders: DataFrame) -> DataFrame:
    return orders
