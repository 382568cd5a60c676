"""Wrong on purpose: a Python global is used as state."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import queue

app = Pipeline("remembers")
clicks = [[(f"user{n % 3}",) for n in range(9)]]
app.source("clicks", queue(clicks), schema="user string")
seen: dict[str, int] = {}


@F.udf("int")
def visit(user):
    seen[user] = seen.get(user, 0) + 1
    return seen[user]


@app.table
def visits(clicks: DataFrame) -> DataFrame:
    return clicks.select("user", visit("user").alias("visit"))
