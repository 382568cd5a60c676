"""What must be there before a query starts: asked just before, not while planning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from headwater.definitions import (
    PERFECT,
    Lookup,
    OutputMode,
    Source,
    Table,
    Trigger,
    TriggerKind,
)
from headwater.errors import CheckpointNotResumable, NotInOrder, TopicMissing, TriggerImpossible
from headwater.graph import Graph
from headwater.planning.inputs import StreamInput
from headwater.planning.partitions import input_partitions
from headwater.runtime.specification import QuerySpec, read_request, write_request
from headwater.runtime.storage import Storage
from headwater.settings import Settings


def check(
    graph: Graph, settings: Settings, queries: Iterable[QuerySpec], resumed: Set[str]
) -> None:
    """Raises the first problem: a broker out of reach, a topic or folder that is missing, a sink
    that cannot be written or resumed."""
    storage = Storage(settings.storage_root, graph.definitions.pipeline)
    queries = list(queries)
    tables_that_hold_cores_leave_one_to_the_others(graph, settings, queries)
    for spec in queries:
        a_memory_sink_does_not_resume(spec, is_resumed=spec.name in resumed)
        try:
            check_inputs(graph, spec.table, settings, storage)
        except TopicMissing:
            # The checkpoint may know the topic: then what is lost is kept first, and told.
            if spec.name not in resumed:
                raise
        for source in graph.sources_of(spec.name):
            a_perfect_watermark_needs_one_order(source, settings)
        spec.sink.check_writable(write_request(spec, settings, storage))


def a_memory_sink_does_not_resume(spec: QuerySpec, *, is_resumed: bool) -> None:
    if is_resumed and spec.sink.system == "memory" and spec.mode is not OutputMode.COMPLETE:
        raise CheckpointNotResumable(spec.name, spec.sink.describe(), where=spec.table.location)


def tables_that_hold_cores_leave_one_to_the_others(
    graph: Graph, settings: Settings, queries: Sequence[QuerySpec]
) -> None:
    """Each partition of their input takes a core for as long as they run: the tables that come too
    late would wait for ever. How many cores a cluster has is not known here."""
    holding = [spec for spec in queries if spec.trigger.kind in _HOLDS_CORES]
    if len(queries) < 2 or not holding or not settings.master.startswith("local"):
        return
    held = {spec.name: _partitions(graph, settings, spec) for spec in holding}
    needed = sum(held.values()) + (len(holding) < len(queries))
    if needed > settings.cores:
        each = ", ".join(f"{name} {count}" for name, count in held.items())
        others = ", and the other tables need one" if len(holding) < len(queries) else ""
        first = holding[0]
        raise TriggerImpossible(
            first.name,
            str(first.trigger),
            [f"of {settings.cores} cores these hold for as long as they run: {each}{others}"],
            possible=["default", "processing time", "fewer tables in a run (--tables)"],
            where=first.table.location,
        )


_HOLDS_CORES = (TriggerKind.CONTINUOUS, TriggerKind.REAL_TIME)


def _partitions(graph: Graph, settings: Settings, spec: QuerySpec) -> int:
    inputs = [StreamInput(s.name, s.connector, s) for s in graph.sources_of(spec.name)]
    return input_partitions(inputs, settings) or 1


def a_perfect_watermark_needs_one_order(source: Source, settings: Settings) -> None:
    """Rows of several partitions arrive in no common order."""
    if source.watermark != PERFECT:
        return
    one = StreamInput(source.name, source.connector, source)
    partitions = input_partitions([one], settings)
    if partitions is not None and partitions > 1:
        raise NotInOrder(source.name, partitions, where=source.location)


def check_inputs(graph: Graph, table: Table, settings: Settings, storage: Storage) -> None:
    for definition in graph.reads_directly(table.name):
        if isinstance(definition, Source | Lookup):
            _check_input(definition, settings, storage)


def check_files(graph: Graph, table: Table, settings: Settings, storage: Storage) -> None:
    """Only the inputs that need no connection: what a plan may look at."""
    for definition in graph.reads_directly(table.name):
        if isinstance(definition, Source | Lookup) and not definition.connector.needs_connection:
            _check_input(definition, settings, storage)


def _check_input(definition: Source | Lookup, settings: Settings, storage: Storage) -> None:
    connector = definition.connector
    request = read_request(definition, connector, settings, storage, Trigger.default())
    connector.check_readable(request)
