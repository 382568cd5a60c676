"""What a plan remarks without refusing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.definitions import (
    DEFAULT_MAX_AHEAD,
    NO_GUARD,
    Lookup,
    Model,
    OutputMode,
    Table,
    WatermarkPolicy,
)
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
    notes += [*_time_notes(graph, table), *_lookup_notes(graph, table)]
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
        if operator.timers:
            yield "timers fire in a stream only: a batch run lacks what they write"


def _read_notes(graph: Graph, table: Table, modes: Mapping[str, OutputMode]) -> Iterator[str]:
    for definition in graph.reads_directly(table.name):
        if isinstance(definition, Table) and modes[definition.name] is not OutputMode.APPEND:
            mode = modes[definition.name].value
            yield f"table {definition.name} is in {mode} mode: read as a lookup, not as a stream"


def _time_notes(graph: Graph, table: Table) -> Iterator[str]:
    sources = [source for source in graph.sources_of(table.name) if source.watermark]
    for source in sources:
        ahead = source.max_ahead or DEFAULT_MAX_AHEAD
        guard = "no guard against clocks that are ahead"
        if ahead != NO_GUARD:
            guard = f"rows more than {ahead} ahead of their batch are rejected"
        yield f"source {source.name}: watermark {source.watermark}; {guard}"
    if len(sources) > 1:
        words = {
            WatermarkPolicy.MINIMUM: "the slowest of their watermarks counts",
            WatermarkPolicy.MAXIMUM: "the fastest of their watermarks counts, as asked for",
        }
        yield f"{len(sources)} sources: {words[table.watermarks]}"


def _lookup_notes(graph: Graph, table: Table) -> Iterator[str]:
    for definition in graph.reads_directly(table.name):
        if isinstance(definition, Lookup) and definition.reload:
            yield (
                f"lookup {definition.name} is read anew every {definition.reload}: a batch run "
                "joins what it holds then, so its rows may differ from the stream's"
            )
        if isinstance(definition, Model):
            yield (
                f"model {definition.name}: every batch takes the version that is used when it is "
                "planned; a batch run takes the one that is used then"
            )
