"""Events as metrics in the text format that Prometheus reads."""

from __future__ import annotations

import datetime as dt
import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headwater.events import (
    AdviceGiven,
    BatchCompleted,
    Event,
    GapsFound,
    LateCaptured,
    ModelPublished,
    ModelRefused,
    ModelTrained,
    PipelineStarted,
    QueryFailed,
    QueryRestarting,
    QueryStarted,
    QueryStopped,
    RejectedCaptured,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DURATION_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
LATENCY_BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: its name, its kind in Prometheus' words, and what it means."""

    name: str
    kind: str
    help: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric that something else than an event tells."""

    family: Family
    labels: Mapping[str, str]
    value: float


@dataclass
class _Histogram:
    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


UP = Family("headwater_query_running", "gauge", "1 while the table's query runs")
BATCHES = Family("headwater_batches_total", "counter", "Committed batches")
INPUT = Family("headwater_input_rows_total", "counter", "Rows that batches read")
OUTPUT = Family("headwater_output_rows_total", "counter", "Rows that were handed to the sink")
LATE = Family("headwater_late_rows_total", "counter", "Input rows that missed their window")
OUT_OF_ORDER = Family(
    "headwater_out_of_order_rows_total", "counter", "Rows older than the newest, still in time"
)
CAPTURED = Family(
    "headwater_late_captured_rows_total", "counter", "Rows stored in the late table of the table"
)
REJECTED = Family(
    "headwater_rejected_records_total", "counter", "Records that a batch did not let in"
)
STORED = Family(
    "headwater_rejected_captured_records_total", "counter", "Records stored as rejected"
)
FAILURES = Family("headwater_query_failures_total", "counter", "Queries that failed for good")
RESTARTS = Family("headwater_query_restarts_total", "counter", "Restarts after a failure")
GAPS = Family(
    "headwater_gaps_total", "counter", "Stretches of input that were gone before the read"
)
ADVICE = Family("headwater_advice_total", "counter", "Pieces of advice of the doctor, by rule")
DURATION = Family("headwater_batch_duration_seconds", "histogram", "Time of a whole batch")
LATENCY = Family(
    "headwater_latency_seconds",
    "histogram",
    "From the time of an event to the commit of its batch, by rows",
)
OLDEST = Family(
    "headwater_latency_oldest_seconds", "gauge", "The same of the last batch's oldest row"
)
PHASE = Family("headwater_batch_phase_seconds_total", "counter", "Time of batches by Spark's phase")
IN_RATE = Family("headwater_input_rows_per_second", "gauge", "Spark's rate of the last batch")
OUT_RATE = Family("headwater_processed_rows_per_second", "gauge", "Spark's rate of the last batch")
COMMITTED = Family(
    "headwater_last_commit_timestamp_seconds", "gauge", "When the last batch was committed"
)
LAST_BATCH = Family("headwater_last_batch", "gauge", "Number of the last committed batch")
WATERMARK = Family("headwater_watermark_timestamp_seconds", "gauge", "The query's watermark")
WATERMARK_LAG = Family(
    "headwater_watermark_lag_seconds", "gauge", "How far the watermark was behind the last commit"
)
STATE_ROWS = Family("headwater_state_rows", "gauge", "Rows that the query keeps in state")
STATE_BYTES = Family("headwater_state_bytes", "gauge", "Memory that the state uses")
MODEL_VERSION = Family("headwater_model_version", "gauge", "The version in use; 0 for none")
MODEL_SCORE = Family("headwater_model_score", "gauge", "What the version in use scored")
MODEL_PUBLISHED = Family(
    "headwater_model_published_timestamp_seconds", "gauge", "When the version in use was ready"
)
TRAININGS = Family("headwater_model_trainings_total", "counter", "Trainings, by what they led to")
TRAINING_S = Family("headwater_model_training_seconds", "gauge", "Time of the last training")
LAG = Family("headwater_kafka_lag_records", "gauge", "Records behind the newest, per partition")


class Metrics:
    """Takes events from any thread; `text` is what a scrape gets.

    Memory depends on the number of tables, sources and partitions, not on time.
    """

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self.more: Callable[[], Iterable[Sample]] = tuple
        """Asked at each scrape for values that no event tells."""
        self._values: dict[Family, dict[Labels, float]] = {}
        self._histograms: dict[Family, dict[Labels, _Histogram]] = {}
        self._lock = threading.Lock()

    def report(self, event: Event) -> None:
        with self._lock:
            match event:
                case PipelineStarted(tables=tables):
                    for table in tables:
                        self._start(table)
                case QueryStarted(table=table):
                    self._set(UP, 1, table=table)
                case QueryStopped(table=table):
                    self._set(UP, 0, table=table)
                case QueryFailed(table=table):
                    self._set(UP, 0, table=table)
                    self._add(FAILURES, 1, table=table)
                case QueryRestarting(table=table):
                    self._set(UP, 0, table=table)
                    self._add(RESTARTS, 1, table=table)
                case LateCaptured(table=table, rows=rows):
                    self._add(CAPTURED, rows, table=table)
                case RejectedCaptured(source=source, table=table, rows=rows):
                    self._add(STORED, rows, table=table, source=source)
                case GapsFound(source=source, table=table, gaps=gaps):
                    self._add(GAPS, len(gaps), table=table, source=source)
                case AdviceGiven(rule=rule, table=table):
                    self._add(ADVICE, 1, table=table, rule=rule)
                case ModelTrained(model=model, seconds=seconds):
                    self._set(TRAINING_S, seconds, model=model)
                case ModelPublished(model=model):
                    self._add(TRAININGS, 1, model=model, outcome="published")
                case ModelRefused(model=model):
                    self._add(TRAININGS, 1, model=model, outcome="refused")
                case BatchCompleted():
                    self._batch(event)

    def text(self) -> str:
        more = list(self.more())
        with self._lock:
            parts = [self._family(family) for family in (*self._values, *self._histograms)]
        told: dict[Family, list[str]] = {}
        for sample in more:
            labels = self._labels(sample.labels)
            told.setdefault(sample.family, []).append(
                _line(sample.family.name, labels, sample.value)
            )
        parts += [[*_head(family), *lines] for family, lines in told.items()]
        return "\n".join(line for part in parts for line in part) + "\n"

    def _start(self, table: str) -> None:
        """Counters begin at zero, so that their first increase is seen as one."""
        for family in (BATCHES, INPUT, LATE, FAILURES, RESTARTS):
            self._add(family, 0, table=table)
        self._set(UP, 0, table=table)

    def _batch(self, event: BatchCompleted) -> None:
        table = event.table
        committed_s = _epoch_s(event.at) + event.duration_ms / 1000
        self._add(BATCHES, 1, table=table)
        self._add(INPUT, event.input_rows, table=table)
        self._set(IN_RATE, event.input_rows_per_s, table=table)
        self._set(OUT_RATE, event.processed_rows_per_s, table=table)
        self._set(COMMITTED, committed_s, table=table)
        self._set(LAST_BATCH, event.batch, table=table)
        self._observe(DURATION, DURATION_BUCKETS_S, event.duration_ms / 1000, 1, table=table)
        for phase, ms in event.durations_ms.items():
            if phase != "triggerExecution":
                self._add(PHASE, ms / 1000, table=table, phase=phase)
        for source, records in event.rejected.items():
            self._add(REJECTED, records, table=table, source=source)
        for partition, records in event.kafka_lags.items():
            topic, _, number = partition.rpartition(":")
            self._set(LAG, records, table=table, topic=topic, partition=number)
        self._facts(event, committed_s)

    def _facts(self, event: BatchCompleted, committed_s: float) -> None:
        """What only some tables tell."""
        table = event.table
        if event.output_rows is not None:
            self._add(OUTPUT, event.output_rows, table=table)
        if event.late is not None:
            self._add(LATE, event.late.late, table=table)
            self._add(OUT_OF_ORDER, event.late.out_of_order, table=table)
        if event.state_rows is not None:
            self._set(STATE_ROWS, event.state_rows, table=table)
        if event.state_bytes is not None:
            self._set(STATE_BYTES, event.state_bytes, table=table)
        if event.watermark is not None and (at := _epoch_s(event.watermark)) > 0:
            self._set(WATERMARK, at, table=table)
            self._set(WATERMARK_LAG, committed_s - at, table=table)
        for took_ms, rows in event.latency_rows.items():
            self._observe(LATENCY, LATENCY_BUCKETS_S, took_ms / 1000, rows, table=table)
        if event.latency_max_ms is not None:
            self._set(OLDEST, event.latency_max_ms / 1000, table=table)

    def _labels(self, labels: Mapping[str, str]) -> Labels:
        return (("pipeline", self._pipeline), *sorted(labels.items()))

    def _set(self, family: Family, value: float, **labels: str) -> None:
        self._values.setdefault(family, {})[self._labels(labels)] = value

    def _add(self, family: Family, value: float, **labels: str) -> None:
        values = self._values.setdefault(family, {})
        key = self._labels(labels)
        values[key] = values.get(key, 0) + value

    def _observe(
        self, family: Family, bounds: tuple[float, ...], value: float, times: int, **labels: str
    ) -> None:
        found = self._histograms.setdefault(family, {})
        found.setdefault(self._labels(labels), _Histogram(bounds)).observe(value, times)

    def _family(self, family: Family) -> list[str]:
        lines = _head(family)
        for labels, value in self._values.get(family, {}).items():
            lines.append(_line(family.name, labels, value))
        for labels, histogram in self._histograms.get(family, {}).items():
            count = 0
            for bound, found in zip((*histogram.bounds, None), histogram.counts, strict=True):
                count += found
                le = ("le", "+Inf" if bound is None else _number(bound))
                lines.append(_line(f"{family.name}_bucket", (*labels, le), count))
            lines.append(_line(f"{family.name}_sum", labels, histogram.total))
            lines.append(_line(f"{family.name}_count", labels, count))
        return lines


def _head(family: Family) -> list[str]:
    return [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{shown}}} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    """Whole numbers without a fraction; what is no number as Prometheus writes it.

    >>> _number(3.0), _number(0.25), _number(1767268810.5)
    ('3', '0.25', '1767268810.5')
    >>> _number(float("nan")), _number(float("-inf"))
    ('NaN', '-Inf')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


def _epoch_s(timestamp: str) -> float:
    return dt.datetime.fromisoformat(timestamp).timestamp()
