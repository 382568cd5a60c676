"""Wrong on purpose: the watermark is shorter than the rows are late."""

import datetime as dt

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import queue

app = Pipeline("loses_rows")
noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
rows = [(noon + dt.timedelta(minutes=n), n) for n in (0, 5, 10, 1, 15, 2, 20, 3)]
app.source(
    "readings",
    queue([rows]),
    schema="at timestamp, n int",
    event_time="at",
    watermark="1 minute",
)


@app.table
def minutes(readings: DataFrame) -> DataFrame:
    return readings.groupBy(F.window("at", "1 minute")).agg(F.sum("n").alias("n"))
