"""What a plan remarks without refusing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.definitions import OutputMode, Table
from headwater.event_time.entries import AGGREGATION
from headwater.graph import Graph
from headwater.planning.analysis import QueryFacts
from headwater.planning.guarantees import GuaranteeChoice


def notes_of(
    graph: Graph,
    table: Table,
    facts: QueryFacts,
    mode: OutputMode,
    guarantee: GuaranteeChoice,
    modes: Mapping[str, OutputMode],
) -> tuple[str, ...]:
    notes = [*_state_notes(facts, mode), *_read_notes(graph, table, modes)]
    if facts.python:
        functions = ", ".join(facts.python)
        notes.append(f"Python functions ({functions}) are taken to be deterministic")
    if guarantee.async_note:
        notes.append(guarantee.async_note)
    return tuple(notes)


def _state_notes(facts: QueryFacts, mode: OutputMode) -> Iterator[str]:
    for operator in facts.stateful:
        if mode is OutputMode.COMPLETE and operator.kind == AGGREGATION:
            yield "complete mode keeps the state of every group for ever"
        elif not operator.is_bounded:
            yield f"the state of the {operator.kind} grows without bound: no watermark limits it"


def _read_notes(graph: Graph, table: Table, modes: Mapping[str, OutputMode]) -> Iterator[str]:
    for definition in graph.reads_directly(table.name):
        if isinstance(definition, Table) and modes[definition.name] is not OutputMode.APPEND:
            mode = modes[definition.name].value
            yield f"table {definition.name} is in {mode} mode: read as a lookup, not as a stream"
