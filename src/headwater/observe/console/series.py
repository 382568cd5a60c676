"""Figures of one table over time, as columns that charts draw; bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.observe.doctor.cases import epoch_s
from headwater.runtime.history import Record

KEPT = 2000
PHASES = (
    "latestOffset",
    "walCommit",
    "queryPlanning",
    "addBatch",
    "commitOffsets",
    "commitBatch",
)
_SUMMED = ("input_rows", "output_rows", "late", "rejected")
_AVERAGED = (
    "input_rows_per_s",
    "processed_rows_per_s",
    "duration_ms",
    "watermark_lag_s",
    "latency_p50_ms",
    *PHASES,
)
_HIGHEST = (
    "batch",
    "state_rows",
    "state_bytes",
    "latency_p99_ms",
    "latency_max_ms",
    "kafka_lag",
)
COLUMNS = ("at", *_SUMMED, *_AVERAGED, *_HIGHEST)

Point = tuple[float | None, ...]
"""In the order of COLUMNS."""


@dataclass
class Series:
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, record: Record) -> None:
        self.points.append(point(record.facts))

    def columns(self, most: int, names: Sequence[str]) -> dict[str, list[float | None]]:
        """At most so many points, neighbours put together; the sums stay the same."""
        points = list(self.points)
        size = max(1, -(-len(points) // most))
        groups = [points[start : start + size] for start in range(0, len(points), size)]
        return {
            name: [_together(name, [point[i] for point in group]) for group in groups]
            for name, i in ((name, COLUMNS.index(name)) for name in names)
        }


def point(facts: dict[str, Any]) -> Point:
    """Called for every batch of a history before the first page is shown."""
    committed_s = epoch_s(facts["at"]) + facts["duration_ms"] / 1000
    late, watermark = facts.get("late"), facts.get("watermark")
    mark_s = epoch_s(watermark) if watermark else 0.0
    found = {
        **facts,
        **facts.get("durations_ms", {}),
        "at": committed_s,
        "late": late["late"] if late else None,
        "rejected": sum(facts.get("rejected", {}).values()),
        "watermark_lag_s": committed_s - mark_s if mark_s > 0 else None,
    }
    return tuple(map(found.get, COLUMNS))


def _together(name: str, values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    if name in _SUMMED:
        return sum(known)
    return round(sum(known) / len(known), 3) if name in _AVERAGED else max(known)
