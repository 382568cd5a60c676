"""Wrong on purpose: windows by the time of processing where the time of the event was meant."""

import datetime as dt

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import queue

app = Pipeline("wall_clock")
noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
rows = [("a", noon + dt.timedelta(seconds=n)) for n in range(10)]
app.source("clicks", queue([rows]), schema="user string, at timestamp", event_time="at")


@app.table(mode="complete", unbounded_state=True)
def minutes(clicks: DataFrame) -> DataFrame:
    stamped = clicks.withColumn("seen", F.current_timestamp())
    return stamped.groupBy(F.window("seen", "1 minute").alias("minute"), "user").count()
