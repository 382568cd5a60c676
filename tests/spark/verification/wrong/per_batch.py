"""Wrong on purpose: the aggregate is one of each batch, not of the stream."""

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import foreach_batch, queue

app = Pipeline("per_batch")
clicks = [[("ann", 1), ("bob", 2), ("ann", 3), ("ann", 4), ("bob", 5)]]
app.source("clicks", queue(clicks), schema="user string, n int")
STORE = Path("totals")


def write(frame: DataFrame, batch: int) -> None:
    STORE.mkdir(exist_ok=True)
    totals = frame.groupBy("user").agg(F.sum("n").alias("total")).collect()
    text = json.dumps([[row["user"], row["total"]] for row in totals])
    (STORE / f"{batch}.json").write_text(text)


def read(spark: SparkSession) -> DataFrame:
    rows = [tuple(row) for f in STORE.glob("*.json") for row in json.loads(f.read_text())]
    return spark.createDataFrame(rows, "user string, total long")


def clear() -> None:
    for file in STORE.glob("*.json"):
        file.unlink()


@app.table(into=foreach_batch(write, read=read, clear=clear))
def totals(clicks: DataFrame) -> DataFrame:
    return clicks
