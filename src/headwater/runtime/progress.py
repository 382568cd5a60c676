"""Spark's progress reports as events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.events import BatchCompleted
from headwater.jvm.classes import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnProgress = Callable[[str, dict[str, Any], Any], None]
"""Takes the run's id, a progress as plain values, and Spark's own value of it."""


def batch_completed(table: str, progress: dict[str, Any]) -> BatchCompleted:
    operators = progress.get("stateOperators") or []
    durations = {key: int(value) for key, value in progress.get("durationMs", {}).items()}
    return BatchCompleted(
        table=table,
        batch=int(progress["batchId"]),
        at=str(progress["timestamp"]),
        input_rows=int(progress.get("numInputRows", 0)),
        input_rows_per_s=_number(progress.get("inputRowsPerSecond")),
        processed_rows_per_s=_number(progress.get("processedRowsPerSecond")),
        duration_ms=durations.get("triggerExecution", int(progress.get("batchDuration", 0))),
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        state_rows=sum(int(o["numRowsTotal"]) for o in operators) if operators else None,
        kafka_lag=_kafka_lag(progress),
        durations_ms=durations,
    )


class ProgressListener:
    """Hands on each progress as plain values, by the run's id.

    PySpark's own listener reads some fifty fields of every event from the JVM, one by one; this
    one reads the event's JSON.
    """

    def __init__(self, spark: SparkSession, on_progress: OnProgress) -> None:
        self._queries: Any = spark._jsparkSession.streams()
        wrapper = "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper"
        self.on_end: Callable[[], None] = _nothing
        """Called when a query has ended."""
        listener = _JavaListener(on_progress, lambda: self.on_end())
        self._java = java_class(spark, wrapper)(listener)

    def add(self) -> None:
        from pyspark import SparkContext
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]  # PySpark has no type for it
        self._queries.addListener(self._java)

    def remove(self) -> None:
        self._queries.removeListener(self._java)


class _JavaListener:
    """Called by Spark."""

    def __init__(self, on_progress: OnProgress, on_end: Callable[[], None]) -> None:
        self._on_progress = on_progress
        self._on_end = on_end

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        java = event.progress()
        progress = json.loads(java.json())
        self._on_progress(progress["runId"], progress, java)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._on_end()

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def _nothing() -> None:
    pass


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _kafka_lag(progress: dict[str, Any]) -> int | None:
    """Records behind the newest, over all partitions of all Kafka sources of the query."""
    lags = [
        _lag(source)
        for source in progress.get("sources", [])
        if str(source.get("description", "")).startswith("KafkaV2")
    ]
    return sum(lags) if lags else None


def _lag(source: dict[str, Any]) -> int:
    end, latest = source.get("endOffset"), source.get("latestOffset")
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return 0
    return sum(
        max(0, int(offset) - int(end.get(topic, {}).get(partition, 0)))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )
