"""A definition against the checkpoint it would resume: what changed, and whether that can be.

At its start a query leaves its shape in the checkpoint: what it reads, what it keeps, and how. The
next start compares. Spark finds some changes itself, late and in its own words; others (a changed
or a removed watermark, another number of partitions, a sum over another column) it takes in
silence.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headwater.definitions import OutputMode, Source
from headwater.event_time.entries import WindowShape
from headwater.planning.analysis import QueryFacts


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a query its checkpoint depends on."""

    pipeline: str
    table: str
    sources: tuple[str, ...]
    watermarks: dict[str, str]
    state: tuple[str, ...]
    mode: str
    partitions: int
    is_async: bool

    def text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> Shape | None:
        """None where an earlier version wrote something else."""
        try:
            found: dict[str, Any] = json.loads(text)
            lists = {name: tuple(found[name]) for name in ("sources", "state")}
            return cls(**{**found, **lists})
        except (ValueError, TypeError, KeyError):
            return None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`problems`: the checkpoint cannot be resumed. `notes`: it can, and this changes."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def shape_of(
    pipeline: str,
    table: str,
    *,
    inputs: Sequence[str],
    sources: Sequence[Source],
    facts: QueryFacts,
    windows: Sequence[WindowShape],
    mode: OutputMode,
    partitions: int,
    is_async: bool,
) -> Shape:
    watermarks = {s.name: f"{s.event_time} {s.watermark}" for s in sources if s.watermark}
    state = tuple(operator.shape for operator in facts.stateful)
    state += tuple(f"windows of {w.duration_us} us every {w.slide_us} us" for w in windows)
    return Shape(
        pipeline, table, tuple(inputs), watermarks, state, mode.value, partitions, is_async
    )


def compared(old: Shape, new: Shape) -> Verdict:
    """What a start on the checkpoint of `old` means for `new`."""
    problems, notes = [], []
    if (old.pipeline, old.table) != (new.pipeline, new.table):
        problems.append(f"the checkpoint is that of {old.pipeline}.{old.table}")
    if old.sources != new.sources:
        problems.append(f"it read {_listed(old.sources)}, and now {_listed(new.sources)}")
    problems += _state_problems(old.state, new.state)
    for name in sorted(old.watermarks):
        before, now = old.watermarks[name], new.watermarks.get(name)
        if now is None and old.state and name in new.sources:
            problems.append(f"source {name} had the watermark {before}, and has none now")
        elif now is not None and now != before:
            notes.append(
                f"the watermark of {name} was {before} and is {now}: state that is kept stays, "
                "later windows close by the new one"
            )
    if old.state and old.mode != new.mode:
        notes.append(f"the output mode was {old.mode} and is {new.mode}: rows written before stay")
    if old.state and old.partitions != new.partitions:
        notes.append(
            f"the state keeps its {old.partitions} partitions; headwater state {new.table} "
            f"--partitions {new.partitions} changes it"
        )
    if old.is_async and not new.is_async:
        notes.append(
            "batches were logged asynchronously until now: some since the last logged one may "
            "come again"
        )
    return Verdict(tuple(problems), tuple(notes))


def _state_problems(old: tuple[str, ...], new: tuple[str, ...]) -> list[str]:
    if len(old) != len(new):
        return [f"it kept state in {len(old)} operators, and now in {len(new)}"]
    return [
        f"it kept {before}, and now {now}"
        for before, now in zip(old, new, strict=True)
        if before != now
    ]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
