"""Spark's progress reports as events."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.events import BatchCompleted
from headwater.jvm.classes import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnProgress = Callable[[str, dict[str, Any]], None]
"""Takes the run's id and a progress as plain values."""


def batch_completed(table: str, progress: dict[str, Any]) -> BatchCompleted:
    operators = progress.get("stateOperators") or []
    durations = {key: int(value) for key, value in progress.get("durationMs", {}).items()}
    duration_ms = durations.get("triggerExecution", int(progress.get("batchDuration", 0)))
    event_time = progress.get("eventTime") or {}
    committed_ms = _epoch_ms(str(progress["timestamp"])) + duration_ms
    lags = _kafka_lags(progress)
    return BatchCompleted(
        table=table,
        batch=int(progress["batchId"]),
        at=str(progress["timestamp"]),
        input_rows=int(progress.get("numInputRows", 0)),
        input_rows_per_s=_number(progress.get("inputRowsPerSecond")),
        processed_rows_per_s=_number(progress.get("processedRowsPerSecond")),
        duration_ms=duration_ms,
        watermark=event_time.get("watermark"),
        state_rows=sum(int(o["numRowsTotal"]) for o in operators) if operators else None,
        kafka_lag=None if lags is None else sum(lags.values()),
        durations_ms=durations,
        output_rows=_output_rows(progress),
        source_rows=_source_rows(progress),
        kafka_lags=lags or {},
        state_bytes=_sum(operators, "memoryUsedBytes"),
        state_partitions=max((int(o.get("numShufflePartitions", 0)) for o in operators), default=0)
        or None,
        state_commit_ms=_state_commit_ms(operators),
        latency_max_ms=_since(event_time.get("min"), committed_ms),
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
        self._called = _JavaListener(on_progress, lambda: self.on_end())
        self._java = java_class(spark, wrapper)(self._called)

    def add(self) -> None:
        from pyspark import SparkContext
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]  # PySpark has no type for it
        self._queries.addListener(self._java)

    def remove(self) -> None:
        self._queries.removeListener(self._java)
        self._called.forget()


class _JavaListener:
    """Called by Spark.

    Python keeps it for as long as Java has it, and Java keeps for as long what it leads to: a
    listener that leads to its queries would hold them, and itself, for ever.
    """

    def __init__(self, on_progress: OnProgress, on_end: Callable[[], None]) -> None:
        self._on_progress = on_progress
        self._on_end = on_end

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = json.loads(event.progress().json())
        self._on_progress(progress["runId"], progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._on_end()

    def forget(self) -> None:
        self._on_progress, self._on_end = _no_progress, _nothing

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def _nothing() -> None:
    pass


def _no_progress(run_id: str, progress: dict[str, Any]) -> None:
    pass


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _sum(operators: list[dict[str, Any]], name: str) -> int | None:
    return sum(int(o.get(name, 0)) for o in operators) if operators else None


def _state_commit_ms(operators: list[dict[str, Any]]) -> int | None:
    """Spark adds up the commits of all partitions, which run side by side."""
    if not operators:
        return None
    return sum(
        int(o.get("commitTimeMs", 0)) // max(1, int(o.get("numShufflePartitions", 1)))
        for o in operators
    )


def _epoch_ms(timestamp: str) -> int:
    return round(dt.datetime.fromisoformat(timestamp).timestamp() * 1000)


def _since(event: str | None, committed_ms: int) -> int | None:
    return None if event is None else max(0, committed_ms - _epoch_ms(event))


def _output_rows(progress: dict[str, Any]) -> int | None:
    found = int((progress.get("sink") or {}).get("numOutputRows", -1))
    return found if found >= 0 else None


def _source_rows(progress: dict[str, Any]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for source in progress.get("sources", []):
        name = str(source.get("description", ""))
        rows[name] = rows.get(name, 0) + int(source.get("numInputRows", 0))
    return rows


def _kafka_lags(progress: dict[str, Any]) -> dict[str, int] | None:
    """Records behind the newest per partition; None where the query reads no Kafka source.

    Needs no consumer group: a batch knows where it ended and what the newest offset was.
    """
    sources = [
        source
        for source in progress.get("sources", [])
        if str(source.get("description", "")).startswith("KafkaV2")
    ]
    lags: dict[str, int] = {}
    for source in sources:
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if not isinstance(end, dict) or not isinstance(latest, dict):
            continue
        for topic, partitions in latest.items():
            for partition, offset in partitions.items():
                behind = int(offset) - int(end.get(topic, {}).get(partition, 0))
                lags[f"{topic}:{partition}"] = max(0, behind)
    return lags if sources else None
