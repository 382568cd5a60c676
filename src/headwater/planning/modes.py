"""Which output mode a table is written in, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.connectors.interface import Connector
from headwater.connectors.upserts import keeps_last_of_key
from headwater.definitions import OutputMode, Table, Trigger, TriggerKind
from headwater.errors import ModeImpossible, NoModeFits, NotStreamable
from headwater.event_time.entries import AGGREGATION
from headwater.planning.analysis import QueryFacts, mode_problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """The mode, the reason for it, and why each other mode is impossible (None: it is not)."""

    mode: OutputMode
    reason: str
    problems: Mapping[OutputMode, str | None]

    @property
    def possible(self) -> list[OutputMode]:
        return [mode for mode, problem in self.problems.items() if problem is None]


def choose_mode(
    table: Table, sink: Connector, trigger: Trigger, frame: DataFrame, facts: QueryFacts
) -> ModeChoice:
    """The mode that was asked for, else the first that Spark and the sink can both do.

    Raises ModeImpossible, NoModeFits or NotStreamable.
    """
    _require_stream(table, facts)
    by_spark = {mode: mode_problem(frame, mode) for mode in OutputMode}
    if table.late is not None and table.late.has_panes:
        by_spark = {mode: _PANE_MODES[mode] for mode in OutputMode}
    by_sink = sink.modes(has_key=bool(table.key))
    problems = {
        mode: by_spark[mode] or (None if mode in by_sink else sink_problem(sink, mode))
        for mode in OutputMode
    }
    if table.mode is not None:
        _require_asked(table, sink, problems)
        return ModeChoice(table.mode, "asked for", problems)
    mode, reason = _default(table, sink, trigger, facts, problems, by_spark)
    return ModeChoice(mode, reason, problems)


_PANE_MODES = {
    OutputMode.APPEND: None,
    OutputMode.UPDATE: None,
    OutputMode.COMPLETE: "panes are written when they fire, never all of them again",
}


def sink_problem(sink: Connector, mode: OutputMode) -> str:
    """Why a sink cannot take a mode, in words."""
    name = sink.describe()
    if mode in sink.modes(has_key=True):
        return f"{name} needs a key to find the rows that {mode.value} mode changes"
    modes = " and ".join(sorted(m.value for m in sink.modes(has_key=True))) or "no mode"
    return f"{name} takes {modes} only"


def _require_stream(table: Table, facts: QueryFacts) -> None:
    if not facts.is_streaming:
        raise NotStreamable(
            table.name,
            "it reads no stream: lookups, and tables that are not in append mode, are read whole",
            remedy="read a source or an append table, or run it as a batch",
            where=table.location,
        )


def _require_asked(
    table: Table, sink: Connector, problems: Mapping[OutputMode, str | None]
) -> None:
    assert table.mode is not None
    problem = problems[table.mode]
    if problem is None:
        return
    remedy = None
    if not sink.modes(has_key=False) >= {table.mode} <= sink.modes(has_key=True) and not table.key:
        remedy = "name the columns that tell rows apart: key=[…]"
    raise ModeImpossible(
        table.name,
        table.mode.value,
        problem,
        sink=sink.describe(),
        possible=[mode.value for mode, found in problems.items() if found is None],
        remedy=remedy,
        where=table.location,
    )


def _default(
    table: Table,
    sink: Connector,
    trigger: Trigger,
    facts: QueryFacts,
    problems: Mapping[OutputMode, str | None],
    by_spark: Mapping[OutputMode, str | None],
) -> tuple[OutputMode, str]:
    possible = [mode for mode in OutputMode if problems[mode] is None]
    if not possible:
        raise _nothing_fits(table, sink, by_spark)
    if trigger.kind is TriggerKind.REAL_TIME and OutputMode.UPDATE in possible:
        return OutputMode.UPDATE, "the real-time trigger writes in update mode only"
    if table.key and facts.is_aggregation and OutputMode.UPDATE in possible:
        key = ", ".join(table.key)
        return (
            OutputMode.UPDATE,
            f"an aggregation with a key ({key}): changed rows replace old ones",
        )
    if keeps_last_of_key(table) and OutputMode.UPDATE in possible:
        order = ", ".join(table.order_by)
        return OutputMode.UPDATE, f"a key with order_by ({order}): the last row of a key stays"
    mode = possible[0]
    return mode, _why_first(mode, facts, problems)


def _why_first(
    mode: OutputMode, facts: QueryFacts, problems: Mapping[OutputMode, str | None]
) -> str:
    if mode is OutputMode.APPEND and not facts.stateful:
        return "rows pass through: each result row is written once"
    if mode is OutputMode.APPEND and facts.is_aggregation:
        return "rows are written once, when the watermark has closed their window"
    if mode is OutputMode.APPEND:
        return "each result row is written once"
    skipped = [m for m in OutputMode if problems[m] and _order(m) < _order(mode)]
    reasons = "; ".join(f"not {m.value}: {problems[m]}" for m in skipped)
    meaning = {
        OutputMode.UPDATE: "changed rows of each batch",
        OutputMode.COMPLETE: "the whole result of each batch",
    }[mode]
    return f"{meaning}; {reasons}"


def _order(mode: OutputMode) -> int:
    return list(OutputMode).index(mode)


def _nothing_fits(
    table: Table, sink: Connector, by_spark: Mapping[OutputMode, str | None]
) -> NoModeFits | NotStreamable:
    allowed = [mode for mode, problem in by_spark.items() if problem is None]
    if not allowed:
        reasons = dict.fromkeys(problem for problem in by_spark.values() if problem)
        # What one mode alone forbids says less than what all of them do.
        common = [r for r in reasons if list(by_spark.values()).count(r) > 1] or list(reasons)
        return NotStreamable(table.name, "\n".join(common), where=table.location)
    remedy = "leave into= out for a managed Delta table"
    if OutputMode.UPDATE in allowed and OutputMode.UPDATE in sink.modes(has_key=True):
        remedy = "name the columns that tell rows apart: key=[…]"
    elif "watermark" in (by_spark[OutputMode.APPEND] or ""):
        remedy = f"give the source a watermark and group by its time ({AGGREGATION} windows), or "
        remedy += "leave into= out for a managed Delta table"
    return NoModeFits(
        table.name,
        sink=sink.describe(),
        sink_modes=[mode.value for mode in sink.modes(has_key=bool(table.key))],
        query_modes=[mode.value for mode in allowed],
        reasons=[f"not {mode.value}: {problem}" for mode, problem in by_spark.items() if problem],
        remedy=remedy,
        where=table.location,
    )
