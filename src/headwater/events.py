"""What happens, as values: the terminal, the log, metrics and the console render these records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, slots=True)
class StepStarted(Event):
    """Set-up work that may take longer than a second has begun."""

    step: str


@dataclass(frozen=True, slots=True)
class StepFinished(Event):
    step: str
    seconds: float


@dataclass(frozen=True, slots=True)
class PipelineStarted(Event):
    pipeline: str
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueryStarted(Event):
    """A table runs; `resumed_after` is the last batch of an earlier run, None for a new one."""

    table: str
    query_id: str
    run_id: str
    resumed_after: int | None


@dataclass(frozen=True, slots=True)
class LateCount:
    """Rows that reached a query's first operator with state, in input rows."""

    rows: int = 0
    out_of_order: int = 0
    """Older than the newest of earlier batches, and still in time."""
    refired: int = 0
    """Behind the watermark, within the allowed lateness: their windows fire again."""
    late: int = 0
    late_windows: int = 0
    """Missed windows: of sliding windows one row may miss several."""

    @property
    def on_time(self) -> int:
        return self.rows - self.out_of_order - self.refired - self.late

    def __add__(self, other: LateCount) -> LateCount:
        return LateCount(
            self.rows + other.rows,
            self.out_of_order + other.out_of_order,
            self.refired + other.refired,
            self.late + other.late,
            self.late_windows + other.late_windows,
        )


@dataclass(frozen=True, slots=True)
class BatchCompleted(Event):
    """One batch of one table was committed, with Spark's own figures.

    `late` counts input rows by how they stand to the watermark, None where nothing can be late.
    `rejected` counts records per source.
    """

    table: str
    batch: int
    at: str
    input_rows: int
    input_rows_per_s: float
    processed_rows_per_s: float
    duration_ms: int
    watermark: str | None = None
    state_rows: int | None = None
    late: LateCount | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)
    kafka_lag: int | None = None
    durations_ms: Mapping[str, int] = field(default_factory=dict)
    output_rows: int | None = None
    """None where the sink does not tell."""
    source_rows: Mapping[str, int] = field(default_factory=dict)
    """Input rows by Spark's description of the source."""
    kafka_lags: Mapping[str, int] = field(default_factory=dict)
    """Records behind the newest, by `topic:partition`."""
    state_bytes: int | None = None
    state_partitions: int | None = None
    state_commit_ms: int | None = None
    """Time to commit state, of one partition on average, over all operators."""
    latency_p50_ms: int | None = None
    """From the time of an event to the commit of its batch, of the row in the middle; None without
    event time."""
    latency_p99_ms: int | None = None
    """So much was enough for 99 of 100 rows."""
    latency_rows: Mapping[int, int] = field(default_factory=dict)
    """Rows by how many milliseconds they took at most, in buckets that are an eighth wide."""
    latency_max_ms: int | None = None
    """Of the batch's oldest row; None without a watermark."""


@dataclass(frozen=True, slots=True)
class RejectedCaptured(Event):
    """Records that did not parse were stored in `<source>__rejected`."""

    source: str
    table: str
    up_to_batch: int
    rows: int


@dataclass(frozen=True, slots=True)
class LateCaptured(Event):
    """Late rows of a batch were stored in `<table>__late`, one per missed window."""

    table: str
    batch: int
    rows: int


@dataclass(frozen=True, slots=True)
class LookupReloaded(Event):
    """A lookup with `reload` has changed, or could not be read; then `problem` says why and the
    rows that were there serve on."""

    lookup: str
    version: int | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ModelTrained(Event):
    """A training has ended with a version that can be used; `score` is its evaluation on held-back
    rows, None where nothing evaluates it."""

    model: str
    version: int
    rows: int
    seconds: float
    score: float | None = None


@dataclass(frozen=True, slots=True)
class ModelPublished(Event):
    """A version is used from the next batch on, in place of `previous` (0: of none), which had
    `previous_score` on the same rows. With `is_waiting` another version is pinned and used on."""

    model: str
    version: int
    previous: int
    score: float | None = None
    previous_score: float | None = None
    is_waiting: bool = False


@dataclass(frozen=True, slots=True)
class ModelRefused(Event):
    """A training brought nothing better, or failed; `running` (0: none) is used on."""

    model: str
    version: int
    running: int
    reason: str


@dataclass(frozen=True, slots=True)
class AdviceGiven(Event):
    """The doctor found something in a run that goes on; told once per rule and table."""

    rule: str
    table: str
    finding: str
    gain: str
    setting: str


@dataclass(frozen=True, slots=True)
class QueryStopped(Event):
    table: str
    last_batch: int | None
    was_forced: bool = False


@dataclass(frozen=True, slots=True)
class QueryFailed(Event):
    """A query ended with an error; `message` is the error in Headwater's words."""

    table: str
    last_batch: int | None
    message: str


@dataclass(frozen=True, slots=True)
class GapsFound(Event):
    """Input of a source was gone before a table had read it; kept in `<source>__gaps`."""

    source: str
    table: str
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueryRestarting(Event):
    """A query failed and starts again after a while; `reason` is the error's first line."""

    table: str
    last_batch: int | None
    reason: str
    attempt: str
    wait_s: float


@dataclass(frozen=True, slots=True)
class PipelineStopped(Event):
    pipeline: str
    last_batches: Mapping[str, int | None]


Report = Callable[[Event], None]
"""Receives every event; must not block and must not raise."""


def silent(event: Event) -> None:
    """The report of callers who do not want to hear."""


def both(*reports: Report) -> Report:
    """A report that hands every event to each of several."""

    def report(event: Event) -> None:
        for one in reports:
            one(event)

    return report


@contextmanager
def step(name: str, report: Report) -> Iterator[None]:
    """Reports the beginning and, unless it raises, the end of set-up work."""
    report(StepStarted(name))
    began = time.monotonic()
    yield
    report(StepFinished(name, time.monotonic() - began))
