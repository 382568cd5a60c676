"""Batches as lines of text, for logs and pipes."""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import IO

from headwater.events import (
    AdviceGiven,
    BatchCompleted,
    Event,
    GapsFound,
    LateCaptured,
    LookupReloaded,
    ModelPublished,
    ModelRefused,
    ModelTrained,
    QueryFailed,
    QueryRestarting,
    QueryStarted,
    QueryStopped,
    RejectedCaptured,
)
from headwater.observe.board import TableFigures

_PER_TABLE_S = 1.0


class LinePrinter:
    """One line per batch. Batches that follow each other within a second share a line, so that
    a fast query is not held up by whoever reads its output.

    `report` may be called from any thread; it formats at most one line per table and second.
    """

    def __init__(self, out: IO[str] | None = None, *, every_s: float = _PER_TABLE_S) -> None:
        self._out = out
        self._every_s = every_s
        self._lock = threading.Lock()
        self._pending: dict[str, list[BatchCompleted]] = {}
        self._told_at: dict[str, float] = {}

    def report(self, event: Event) -> None:
        with self._lock:
            match event:
                case BatchCompleted(table=table):
                    self._pending.setdefault(table, []).append(event)
                    if time.monotonic() - self._told_at.get(table, -math.inf) >= self._every_s:
                        self._flush(table)
                case (
                    QueryStarted()
                    | RejectedCaptured()
                    | LateCaptured()
                    | LookupReloaded()
                    | ModelTrained()
                    | ModelPublished()
                    | ModelRefused()
                    | AdviceGiven()
                    | GapsFound()
                ):
                    self._print(event_line(event))
                case (
                    QueryStopped(table=table)
                    | QueryFailed(table=table)
                    | QueryRestarting(table=table)
                ):
                    self._flush(table)
                    self._print(event_line(event))

    def close(self) -> None:
        with self._lock:
            for table in list(self._pending):
                self._flush(table)

    def _flush(self, table: str) -> None:
        batches = self._pending.pop(table, [])
        if batches:
            self._told_at[table] = time.monotonic()
            self._print(batch_line(batches))

    def _print(self, line: str | None) -> None:
        if line:
            print(line, file=self._out or sys.stdout, flush=True)


def batch_line(batches: list[BatchCompleted]) -> str:
    """One or several batches of one table in a line.

    >>> batch_line([BatchCompleted("raw", 3, "2026-01-01T00:00:00Z", 10, 5.0, 20.0, 500)])
    'raw: batch 3, 10 rows, 5.0 rows/s in, 20 rows/s processed, 500 ms'
    """
    first, last = batches[0], batches[-1]
    is_one = len(batches) == 1
    name = f"batch {last.batch}" if is_one else f"batches {first.batch} to {last.batch}"
    duration = sum(batch.duration_ms for batch in batches)
    parts = [
        f"{sum(batch.input_rows for batch in batches):,} rows",
        f"{rate(last.input_rows_per_s)} rows/s in",
        f"{rate(last.processed_rows_per_s)} rows/s processed",
        f"{duration:,} ms",
    ]
    figures = TableFigures(last.table)
    for batch in batches:
        figures = figures.after(batch)
    return f"{last.table}: {name}, {', '.join(parts + details(figures))}"


def details(figures: TableFigures) -> list[str]:
    """What only some tables have: watermark, state, lag, rows that did not count."""
    last = figures.last
    if last is None:
        return []
    found = []
    if has_watermark(last):
        found.append(f"watermark {clock(last.watermark)}")
    if last.state_rows is not None:
        found.append(f"state {last.state_rows:,} rows")
    if last.kafka_lag is not None:
        found.append(f"Kafka lag {last.kafka_lag:,}")
    if figures.late:
        found.append(f"late {figures.late:,}")
    if figures.rejected:
        found.append(f"rejected {figures.rejected:,}")
    return found


def rate(per_s: float) -> str:
    """A rate with the digits that matter.

    >>> rate(12345.6), rate(0.25)
    ('12,346', '0.2')
    """
    return f"{per_s:,.1f}" if 0 < per_s < 10 else f"{per_s:,.0f}"


def has_watermark(batch: BatchCompleted) -> bool:
    # Spark reports the epoch until the first batch has moved the watermark.
    return batch.watermark is not None and not batch.watermark.startswith("1970-01-01T00:00:00")


def clock(timestamp: str | None) -> str:
    """The time of day of Spark's timestamps: enough beside a live view.

    >>> clock("2026-01-01T12:03:04.000Z")
    '12:03:04'
    """
    return "" if timestamp is None else timestamp[11:19]


def event_line(event: Event) -> str | None:
    match event:
        case QueryStarted(table=table, resumed_after=None):
            return f"{table}: started, new"
        case QueryStarted(table=table, resumed_after=batch):
            return f"{table}: resumed after batch {batch}"
        case RejectedCaptured(source=source, rows=rows):
            records = "1 record" if rows == 1 else f"{rows:,} records"
            return f"{source}: {records} rejected, kept in {source}__rejected"
        case LateCaptured(table=table, batch=batch, rows=rows):
            missed = "1 missed window" if rows == 1 else f"{rows:,} missed windows"
            return f"{table}: late rows up to batch {batch} kept in {table}__late ({missed})"
        case LookupReloaded(lookup=lookup, problem=None):
            return f"{lookup}: changed, joined from the next batch on"
        case LookupReloaded(lookup=lookup, problem=problem):
            return f"{lookup}: could not be read again, goes on as it was: {problem}"
        case ModelTrained() | ModelPublished() | ModelRefused():
            return model_line(event)
        case AdviceGiven(table=table, finding=finding, setting=setting):
            return f"{table}: {finding}; advice: {setting}"
        case GapsFound(source=source, table=table, gaps=gaps):
            return f"{source}: gone before {table} read it, see {source}__gaps: {'; '.join(gaps)}"
        case QueryStopped(table=table, last_batch=batch, was_forced=True):
            which = "its first batch" if batch is None else f"the batch after {batch}"
            return f"{table}: stopped by force in {which}"
        case QueryStopped(table=table, last_batch=batch):
            return f"{table}: stopped after {'no batch' if batch is None else f'batch {batch}'}"
        case QueryFailed(table=table, last_batch=batch):
            return f"{table}: failed after {'no batch' if batch is None else f'batch {batch}'}"
        case QueryRestarting(table=table, reason=reason, attempt=attempt, wait_s=wait_s):
            return f"{table}: failed, {attempt} in {wait_s:.0f} s: {reason}"
    return None


def model_line(event: ModelTrained | ModelPublished | ModelRefused) -> str:
    """One line about a model.

    >>> model_line(ModelRefused("baseline", 3, 2, "it returned nothing"))
    'baseline: version 3 refused, version 2 stays: it returned nothing'
    """
    match event:
        case ModelTrained(score=None):
            return f"{event.model}: version {event.version} trained in {event.seconds:.1f} s"
        case ModelTrained():
            return (
                f"{event.model}: version {event.version} trained in {event.seconds:.1f} s, "
                f"score {event.score:.4g}"
            )
        case ModelPublished(is_waiting=True):
            return f"{event.model}: version {event.version} published, another one is pinned"
        case ModelPublished(score=None) | ModelPublished(previous_score=None):
            return f"{event.model}: version {event.version} used from the next batch on"
        case ModelPublished():
            return (
                f"{event.model}: version {event.version} used from the next batch on: score "
                f"{event.score:.4g}, version {event.previous} had {event.previous_score:.4g}"
            )
        case ModelRefused(running=0):
            return f"{event.model}: version {event.version} refused, none is used: {event.reason}"
        case ModelRefused():
            return (
                f"{event.model}: version {event.version} refused, version {event.running} stays: "
                f"{event.reason}"
            )
