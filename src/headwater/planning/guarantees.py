"""Exactly-once or at-least-once, from the conditions that decide it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.connectors.interface import Connector
from headwater.definitions import Guarantee, OutputMode, Table, Trigger, TriggerKind
from headwater.errors import GuaranteeImpossible
from headwater.planning.analysis import QueryFacts
from headwater.planning.inputs import StreamInput
from headwater.planning.triggers import async_progress_problem


@dataclass(frozen=True, slots=True)
class GuaranteeChoice:
    """What is held, the conditions that fail (or hold), and asynchronous progress."""

    guarantee: Guarantee
    reasons: tuple[str, ...]
    is_async_progress: bool = False
    async_note: str | None = None
    condition: str = ""
    """What exactly-once rests on outside of Headwater."""


def choose_guarantee(
    table: Table,
    *,
    inputs: Sequence[StreamInput],
    facts: QueryFacts,
    sink: Connector,
    mode: OutputMode,
    trigger: Trigger,
    is_told_apart: bool,
    is_speculative: bool = False,
) -> GuaranteeChoice:
    """Raises GuaranteeImpossible where exactly-once was asked for and a condition fails.

    `is_told_apart`: the key tells the rows of a batch apart. `is_speculative`: Spark may run a task
    twice at once.
    """
    failing = [
        *source_problems(inputs),
        *function_problems(facts),
        *sink_problems(sink, mode, has_key=bool(table.key)),
        *comparison_problems(sink, facts, is_told_apart=is_told_apart),
        *speculation_problems(sink, is_speculative=is_speculative),
        *trigger_problems(trigger),
        *asked_for_less(table, sink),
    ]
    if failing and table.guarantee is Guarantee.EXACTLY_ONCE:
        raise GuaranteeImpossible(table.name, failing, where=table.location)
    is_async, note = _async_progress(table, trigger, sink, facts)
    if is_async:
        failing.append("asynchronous progress: batches are logged after they are written")
    if failing:
        return GuaranteeChoice(Guarantee.AT_LEAST_ONCE, tuple(failing), is_async, note)
    of_sink = sink.idempotence(mode, has_key=bool(table.key))
    holding = ("every source can be read again", "the function is deterministic", of_sink.reason)
    return GuaranteeChoice(Guarantee.EXACTLY_ONCE, holding, is_async, note, of_sink.condition)


def source_problems(inputs: Sequence[StreamInput]) -> list[str]:
    return [
        f"source {one.name}: {one.connector.describe()} cannot be read again after a crash"
        for one in inputs
        if not one.connector.is_replayable
    ]


def function_problems(facts: QueryFacts) -> list[str]:
    """Spark replaces the current time by the batch's own, which the offset log keeps: a batch
    that runs again sees the same. Random values it draws anew."""
    return [f"function: {name} gives other values when a batch runs again" for name in facts.random]


def sink_problems(sink: Connector, mode: OutputMode, *, has_key: bool) -> list[str]:
    found = sink.idempotence(mode, has_key=has_key)
    return [] if found.is_held else [f"sink {sink.describe()}: {found.reason}"]


def comparison_problems(sink: Connector, facts: QueryFacts, *, is_told_apart: bool) -> list[str]:
    """Rows that are compared by their values must have the same ones when a batch runs again."""
    if not sink.compares_rows or is_told_apart:
        return []
    return [
        f"function: {name} depends on the order of its rows, and without a key of its own for each "
        "row, in update or complete mode, a batch that runs again is compared with "
        f"{sink.describe()} by its values"
        for name in facts.order_dependent
    ]


def speculation_problems(sink: Connector, *, is_speculative: bool) -> list[str]:
    if not is_speculative or not sink.compares_rows:
        return []
    return [
        f"spark.speculation is on: two attempts at a task write to {sink.describe()} at once, and "
        "none sees the rows of the other"
    ]


def asked_for_less(table: Table, sink: Connector) -> list[str]:
    """A sink that pays for exactly-once does not where less was asked for."""
    if table.guarantee is Guarantee.AT_LEAST_ONCE and sink.compares_rows:
        return ["at_least_once was asked for"]
    return []


def trigger_problems(trigger: Trigger) -> list[str]:
    if trigger.kind is TriggerKind.CONTINUOUS:
        return ["trigger continuous: rows since the last logged epoch are written again"]
    if trigger.kind is TriggerKind.REAL_TIME:
        return ["trigger real time: a batch is logged at its end, so its rows are written again"]
    return []


def _async_progress(
    table: Table, trigger: Trigger, sink: Connector, facts: QueryFacts
) -> tuple[bool, str | None]:
    if table.guarantee is not Guarantee.AT_LEAST_ONCE:
        return False, None
    problem = async_progress_problem(trigger, sink, facts)
    if problem:
        return False, f"asynchronous progress is off: {problem}"
    return True, "asynchronous progress is on: at_least_once was asked for"
