"""What becomes of a table's late rows, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.connectors.interface import Connector
from headwater.definitions import (
    PERFECT,
    Late,
    LateKind,
    PaneValues,
    Source,
    Table,
    Trigger,
    TriggerKind,
    duration_ms,
)
from headwater.errors import DelayZero, LatePolicyImpossible, UnboundedState, WatermarkTooShort
from headwater.event_time.entries import AGGREGATION, Entry
from headwater.event_time.late import watched_entries
from headwater.event_time.panes import additive_columns
from headwater.planning.analysis import QueryFacts, facts_of
from headwater.planning.inputs import StreamInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOTHING = "no watermark reaches an operator with state, so no row can be late"


@dataclass(frozen=True, slots=True)
class LateChoice:
    """The policy with its reason; no policy where no row can be late."""

    policy: Late | None
    reason: str


def choose_late(
    table: Table, frame: DataFrame, inputs: Sequence[StreamInput], sink: Connector
) -> LateChoice:
    """What was asked for; else capture, or drop where a source cannot be read again.

    Raises LatePolicyImpossible.
    """
    entries = watched_entries(frame)
    asked = table.late
    if not entries:
        if asked is not None:
            raise LatePolicyImpossible(
                table.name,
                str(asked),
                _NOTHING,
                remedy="give the source a watermark and group by its time, or leave late= out",
                where=table.location,
            )
        return LateChoice(None, _NOTHING)
    lost = [one.name for one in inputs if not one.connector.is_replayable]
    if asked is None:
        if lost:
            reason = f"source {lost[0]} cannot be read again after a crash, so none are kept"
            return LateChoice(Late.drop(), reason)
        return LateChoice(Late.capture(), f"the default: kept in {table.name}__late")
    if lost and asked.keeps_rows:
        raise LatePolicyImpossible(
            table.name,
            str(asked),
            f"source {lost[0]} cannot be read again, so late rows would be lost in a crash",
            remedy='late="drop" counts them, or read a source that keeps its rows',
            where=table.location,
        )
    if asked.has_panes:
        _require_one_window(table, asked, frame, entries)
        _require_sink(table, asked, sink)
        _require_additive(table, asked, frame, entries)
    return LateChoice(asked, "asked for")


def _require_one_window(
    table: Table, asked: Late, frame: DataFrame, entries: Sequence[Entry]
) -> None:
    operators = facts_of(frame).stateful
    problem = None
    if len(operators) > 1:
        problem = "it has several operators with state, and Spark hands their rows on only once"
    elif entries[0].kind != AGGREGATION:
        problem = f"a {entries[0].kind} has no windows that could fire again"
    elif entries[0].is_session:
        problem = "session windows have no end until they are closed, so nothing can fire before"
    elif entries[0].window is None:
        problem = "it groups by moments, not by time windows"
    if problem:
        raise LatePolicyImpossible(
            table.name,
            str(asked),
            problem,
            remedy='late="capture" keeps them; headwater late --merge counts them afterwards',
            where=table.location,
        )


def _require_sink(table: Table, asked: Late, sink: Connector) -> None:
    if not sink.writes_increments:
        raise LatePolicyImpossible(
            table.name,
            str(asked),
            f"{sink.describe()} takes rows only from Spark's own streaming writer",
            remedy="leave into= out for a managed Delta table",
            where=table.location,
        )


def _require_additive(
    table: Table, asked: Late, frame: DataFrame, entries: Sequence[Entry]
) -> None:
    if asked.values is not PaneValues.DISCARDING:
        return
    _, others = additive_columns(frame, entries[0])
    if others:
        raise LatePolicyImpossible(
            table.name,
            str(asked),
            f"of {', '.join(others)} no pane can hold only what is new: that is for counts, sums "
            "and averages",
            remedy='values="accumulating" or "retracting"',
            where=table.location,
        )


_BY_FAR = 10


def check_watermarks(
    table: Table,
    trigger: Trigger,
    frame: DataFrame,
    facts: QueryFacts,
    sources: Sequence[Source],
) -> None:
    """The laws between watermarks, state and triggers; one function per law."""
    state_is_bounded(table, facts)
    a_watermark_outlasts_a_trigger(table, trigger, facts, sources)
    equal_moments_are_in_time(table, frame, sources)


def state_is_bounded(table: Table, facts: QueryFacts) -> None:
    """State that nothing ever removes is kept only where the table says that this is meant."""
    if table.unbounded_state:
        return
    for operator in facts.stateful:
        if not operator.is_bounded:
            raise UnboundedState(table.name, operator.kind, where=table.location)


def a_watermark_outlasts_a_trigger(
    table: Table, trigger: Trigger, facts: QueryFacts, sources: Sequence[Source]
) -> None:
    """Rows of one interval arrive together: those of the next are measured against the newest."""
    if trigger.kind is not TriggerKind.PROCESSING_TIME or not facts.stateful:
        return
    interval_ms = duration_ms(trigger.interval or "")
    for source in sources:
        if source.delay is None or source.watermark == PERFECT:
            continue
        if duration_ms(source.delay) * _BY_FAR < interval_ms:
            raise WatermarkTooShort(
                table.name, source.name, source.delay, str(trigger), where=table.location
            )


def equal_moments_are_in_time(table: Table, frame: DataFrame, sources: Sequence[Source]) -> None:
    """Without windows a row is late when it is as old as the watermark."""
    zero = [s for s in sources if s.delay is not None and duration_ms(s.delay) == 0]
    if not zero:
        return
    by_moment = [entry for entry in watched_entries(frame) if entry.window is None]
    if by_moment:
        raise DelayZero(table.name, zero[0].name, by_moment[0].kind, where=table.location)


def late_words(choice: LateChoice) -> str:
    """The policy as the plan prints it."""
    if choice.policy is None:
        return choice.reason
    meaning = {
        LateKind.DROP: "dropped and counted",
        LateKind.CAPTURE: "captured, one row per missed window",
        LateKind.ALLOW: "counted while the period lasts; one corrected result at its end",
        LateKind.REFIRE: "counted while the period lasts; every batch with some fires again",
    }[choice.policy.kind]
    return f"{choice.policy}: {meaning} ({choice.reason})"
