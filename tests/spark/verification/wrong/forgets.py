# ruff: noqa: N802, N803 - Spark's names
"""Wrong on purpose: a timer writes how many clicks the last batch had, not how many there were."""

import datetime as dt

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from headwater import Pipeline
from headwater.connectors import queue

app = Pipeline("forgets")
noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
rows = [("ann", noon + dt.timedelta(minutes=n)) for n in range(2)]
app.source(
    "clicks",
    queue([rows]),
    schema="user string, at timestamp",
    event_time="at",
    watermark="1 hour",
)


class Counts(StatefulProcessor):
    def init(self, handle):
        self._handle = handle
        self._clicks = handle.getValueState("clicks", "clicks long")

    def handleInputRows(self, key, rows, timerValues):
        self._clicks.update((len(list(rows)),))
        self._handle.registerTimer(int(noon.timestamp() * 1000) + 3_600_000)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield Row(user=key[0], clicks=self._clicks.get()[0])

    def close(self):
        pass


@app.table
def visits(clicks: DataFrame) -> DataFrame:
    return clicks.groupBy("user").transformWithState(
        statefulProcessor=Counts(),
        outputStructType="user string, clicks long",
        outputMode="append",
        timeMode="EventTime",
    )
