"""Ways to run one input: cuts into batches, arrival orders, triggers, partitions, restarts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.definitions import Source, duration_ms
from headwater.testing.kept import Row
from headwater.testing.values import moment_ms
from headwater.verification.recording import Recording

RESTART = "restart"
CRASH_BEFORE = "crash before_sink"
CRASH_AFTER = "crash after_sink"


@dataclass(frozen=True, slots=True)
class Step:
    """Rows that arrive together, and what happens when they are processed."""

    rows: Mapping[str, list[Row]]
    event: str | None = None
    is_checked: bool = True
    """Whether the laws of a prefix are checked after it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to run an input."""

    steps: tuple[Step, ...]
    trigger: str | None = None
    partitions: int = 1
    is_recorded_order: bool = True
    seed: int = 0

    def describe(self) -> str:
        events = [step.event for step in self.steps if step.event]
        order = "as recorded" if self.is_recorded_order else "in another order"
        parts = [
            f"{len(self.steps)} batches",
            f"rows {order}",
            f"trigger {self.trigger or 'of the tables'}",
            f"{self.partitions} partitions",
            *(f"{events.count(event)} x {event}" for event in dict.fromkeys(events)),
        ]
        return ", ".join(parts)

    @property
    def size(self) -> int:
        return sum(len(rows) for step in self.steps for rows in step.rows.values())


def one_batch(recording: Recording) -> Trial:
    return Trial((Step(dict(recording)),))


def make(
    recording: Recording,
    sources: Mapping[str, Source],
    seed: int,
    *,
    crashes: bool,
    is_recorded: bool,
) -> Trial:
    """The trial of a seed, in the recorded order or in another in which no row is late."""
    chance = random.Random(seed)
    rows = {
        name: list(given) if is_recorded else _shuffled(given, sources[name], chance)
        for name, given in recording.items()
    }
    longest = max(map(len, rows.values()))
    count = chance.randint(2, max(2, min(4, longest)))
    cuts = {
        name: _cuts(len(given), count, chance, _overtaken(given, sources[name]))
        for name, given in rows.items()
    }
    steps = []
    for number in range(count):
        part = {
            name: given[cuts[name][number] : cuts[name][number + 1]] for name, given in rows.items()
        }
        steps.append(Step(part, _event(chance, crashes=crashes), chance.random() < 0.5))
    return Trial(
        tuple(steps),
        trigger=chance.choice([None, "default", "10 seconds", "once", "available now"]),
        partitions=chance.choice([1, 2, 3]),
        is_recorded_order=is_recorded,
        seed=seed,
    )


def _event(chance: random.Random, *, crashes: bool) -> str | None:
    if crashes:
        return chance.choice([None, RESTART, CRASH_BEFORE, CRASH_AFTER])
    return chance.choice([None, None, RESTART])


def _cuts(length: int, count: int, chance: random.Random, likely: list[int]) -> list[int]:
    """Where batches begin: anywhere, and one of them where a row would be late if there is one."""
    inner = [chance.randint(0, length) for _ in range(count - 1)]
    if likely:
        inner[0] = chance.choice(likely)
    return [0, *sorted(inner), length]


def _overtaken(rows: list[Row], source: Source) -> list[int]:
    """Rows that others have overtaken by more than the watermark's delay."""
    index = event_time_index(source, rows)
    if index is None or source.delay is None:
        return []
    delay_ms, newest, found = duration_ms(source.delay), 0.0, []
    for number, row in enumerate(rows):
        moment = _moment(row[index])
        if moment < newest - delay_ms:
            found.append(number)
        newest = max(newest, moment)
    return found


def _shuffled(rows: list[Row], source: Source, chance: random.Random) -> list[Row]:
    """Another order in which no row is late: each is held up for less than the watermark's delay.

    A source without a watermark promises nothing about order, so its rows keep theirs.
    """
    if source.delay is None or source.event_time is None:
        return list(rows)
    delay_ms = duration_ms(source.delay)
    index = event_time_index(source, rows)
    if index is None or delay_ms == 0:
        return list(rows)
    held = [(_moment(row[index]) + chance.random() * delay_ms * 0.999, row) for row in rows]
    return [row for _, row in sorted(held, key=lambda pair: pair[0])]


def event_time_index(source: Source, rows: list[Row]) -> int | None:
    """Where the event time stands in the rows of a source with a schema."""
    from headwater.schemas import columns

    if source.schema is None or source.event_time is None or not rows:
        return None
    names = [column.name.lower() for column in columns(source.schema)]
    return names.index(source.event_time.lower()) if source.event_time.lower() in names else None


def _moment(value: Any) -> float:
    return 0.0 if value is None else float(moment_ms(value))
