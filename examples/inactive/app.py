"""Visits that end when a user has been inactive for half an hour, by a timer of the event time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from headwater import Pipeline
from headwater.connectors import queue

inactive = Pipeline("inactive")
INACTIVE_MS = 30 * 60 * 1000


def at(clock: str) -> dt.datetime:
    return dt.datetime.fromisoformat(f"2026-01-01T{clock}:00+00:00")


inactive.source(
    "clicks",
    queue(
        [
            [("ann", at("12:00")), ("bob", at("12:02"))],
            [("ann", at("12:20")), ("ann", at("12:15"))],
            [("eve", at("13:30"))],
        ]
    ),
    schema="user string, at timestamp",
    event_time="at",
    watermark="10 minutes",
)


class Visits(StatefulProcessor):
    """Keeps when a user came, was last seen, and how often; a timer closes the visit."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._visit = handle.getValueState("visit", "first long, last long, clicks long")

    def handleInputRows(  # noqa: N802 - Spark's names
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        moments = sorted(int(row.at.timestamp() * 1000) for row in rows)
        first, last, clicks = moments[0], moments[-1], 0
        if self._visit.exists():
            known = self._visit.get()
            first, clicks = min(first, known[0]), known[2]
            self._handle.deleteTimer(known[1] + INACTIVE_MS)
            last = max(last, known[1])
        self._visit.update((first, last, clicks + len(moments)))
        self._handle.registerTimer(last + INACTIVE_MS)
        return iter(())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        first, last, clicks = self._visit.get()
        self._visit.clear()
        yield Row(user=key[0], first=first, last=last, clicks=clicks)

    def close(self) -> None:
        pass


@inactive.table
def visits(clicks: DataFrame) -> DataFrame:
    ended = clicks.groupBy("user").transformWithState(
        statefulProcessor=Visits(),
        outputStructType="user string, first long, last long, clicks long",
        outputMode="append",
        timeMode="EventTime",
    )
    return ended.selectExpr(
        "user", "timestamp_millis(first) AS first", "timestamp_millis(last) AS last", "clicks"
    )
