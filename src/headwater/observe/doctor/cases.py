"""What a rule looks at: the recent batches of one table, and what is known of the table."""

from __future__ import annotations

import dataclasses
import datetime as dt
import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.definitions import duration_ms
from headwater.events import BatchCompleted, LateCount
from headwater.runtime.history import Record

RECENT = 200
FEWEST = 5
"""Batches that a rule wants to see before it speaks."""
WARM_UP_S = 120.0
"""How long the JVM of a new run is busy compiling: batches take a multiple of what they will."""
_LOADING = 2
"""Batches at the start of a run that load classes and read metadata, and tell nothing else."""
_FIELDS = {f.name for f in dataclasses.fields(BatchCompleted)}


@dataclass(frozen=True, slots=True)
class Measured:
    """How late the rows of a source were, in all runs together."""

    source: str
    rows: int
    delay: str
    p999_ms: int

    @property
    def delay_ms(self) -> int:
        return 1 if self.delay == "perfect" else duration_ms(self.delay)


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The files of a table on disk."""

    count: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Case:
    """One table: `batches` are those of its last run, without the first ones."""

    table: str
    batches: tuple[BatchCompleted, ...]
    node: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    lateness: tuple[Measured, ...] = ()
    files: StoredFiles | None = None
    memory_bytes: int | None = None

    @property
    def busy(self) -> list[BatchCompleted]:
        """Batches that read something."""
        return [batch for batch in self.batches if batch.input_rows]

    @property
    def cores(self) -> int:
        return int(self.about.get("cores") or 1)

    @property
    def interval_ms(self) -> int | None:
        """Of a processing-time trigger."""
        trigger = str(self.node.get("trigger") or "")
        if not trigger.startswith("processing time "):
            return None
        return duration_ms(trigger.removeprefix("processing time "))

    @property
    def sources(self) -> list[Mapping[str, Any]]:
        """Sources that the table reads, views seen through."""
        nodes = {node["name"]: node for node in self.about.get("nodes", [])}
        found: dict[str, Mapping[str, Any]] = {}
        waiting = list(self.node.get("reads", []))
        while waiting:
            node = nodes.get(waiting.pop())
            if node is None:
                continue
            if node["kind"] == "source":
                found[node["name"]] = node
            elif node["kind"] == "view":
                waiting += node["reads"]
        return list(found.values())

    @property
    def load(self) -> float:
        """The share of time in which a batch ran."""
        starts = [epoch_s(batch.at) for batch in self.batches]
        span = starts[-1] - starts[0] if len(starts) > 1 else 0.0
        if span <= 0:
            return 0.0
        return sum(batch.duration_ms for batch in self.batches[:-1]) / 1000 / span

    def share(self, *phases: str) -> float:
        """Of the time of batches that read something, the part that went into phases."""
        total = sum(batch.duration_ms for batch in self.busy)
        spent = sum(batch.durations_ms.get(p, 0) for batch in self.busy for p in phases)
        return spent / total if total else 0.0


class Recent:
    """The newest batches of every table, fed record by record; memory does not grow with time.

    Those of a run's first minutes count until there are enough later ones, or, for who looks all
    the time and `can_wait`, never.
    """

    def __init__(self, *, can_wait: bool = False, warm_up_s: float = WARM_UP_S) -> None:
        self._can_wait = can_wait
        self._warm_up_s = warm_up_s
        self._records: dict[str, deque[Record]] = {}
        self._seen: dict[str, int] = {}
        self._warm_at_s: dict[str, float] = {}

    def add(self, record: Record) -> None:
        table = record.table
        if table is None:
            return
        if record.kind == "QueryStarted":
            self._records[table], self._seen[table] = deque(maxlen=RECENT), 0
            self._warm_at_s[table] = epoch_s(record.at) + self._warm_up_s
        elif record.kind == "BatchCompleted":
            self._seen[table] = self._seen.get(table, 0) + 1
            if self._seen[table] > _LOADING:
                self._records.setdefault(table, deque(maxlen=RECENT)).append(record)

    @property
    def tables(self) -> list[str]:
        return list(self._records)

    def batches(self, table: str) -> tuple[BatchCompleted, ...]:
        found = self._records.get(table, ())
        warm_at_s = self._warm_at_s.get(table, 0.0)
        warm = [record for record in found if epoch_s(record.at) >= warm_at_s]
        counts = warm if self._can_wait or len(warm) >= FEWEST else found
        return tuple(batch_of(record) for record in counts)


def cases(
    recent: Recent,
    about: Mapping[str, Any] | None,
    *,
    lateness: Mapping[str, Measured] | None = None,
    files: Mapping[str, StoredFiles] | None = None,
    memory_bytes: int | None = None,
) -> list[Case]:
    """A case per table, of its last run."""
    about = about or {}
    nodes = {node["name"]: node for node in about.get("nodes", []) if node["kind"] == "table"}
    found = []
    for table in nodes or recent.tables:
        case = Case(table, recent.batches(table), nodes.get(table, {}), about)
        named = {source["name"] for source in case.sources}
        late = tuple(m for name, m in (lateness or {}).items() if name in named)
        found.append(
            dataclasses.replace(
                case, lateness=late, files=(files or {}).get(table), memory_bytes=memory_bytes
            )
        )
    return found


def batch_of(record: Record) -> BatchCompleted:
    """The event that a record holds; facts of a newer version are left out."""
    facts = {name: value for name, value in record.facts.items() if name in _FIELDS}
    if facts.get("late") is not None:
        facts["late"] = LateCount(**facts["late"])
    return BatchCompleted(**facts)


def epoch_s(timestamp: str) -> float:
    return dt.datetime.fromisoformat(timestamp).timestamp()


def median(values: Iterable[float]) -> float:
    found = list(values)
    return statistics.median(found) if found else 0.0


def slope(points: list[tuple[float, float]]) -> float:
    """By how much the second value grows while the first grows by one; 0 without a line."""
    if len({x for x, _ in points}) < 2:
        return 0.0
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope
