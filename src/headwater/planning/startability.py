"""What must be there before a query starts: asked just before, not while planning."""

from __future__ import annotations

from collections.abc import Iterable, Set

from headwater.definitions import Lookup, OutputMode, Source, Table, Trigger
from headwater.errors import CheckpointNotResumable
from headwater.graph import Graph
from headwater.runtime.specification import QuerySpec, read_request, write_request
from headwater.runtime.storage import Storage
from headwater.settings import Settings


def check(
    graph: Graph, settings: Settings, queries: Iterable[QuerySpec], resumed: Set[str]
) -> None:
    """Raises the first problem: a broker out of reach, a topic or folder that is missing, a sink
    that cannot be written or resumed."""
    storage = Storage(settings.storage_root, graph.definitions.pipeline)
    for spec in queries:
        a_memory_sink_does_not_resume(spec, is_resumed=spec.name in resumed)
        check_inputs(graph, spec.table, settings, storage)
        spec.sink.check_writable(write_request(spec, settings, storage))


def a_memory_sink_does_not_resume(spec: QuerySpec, *, is_resumed: bool) -> None:
    if is_resumed and spec.sink.system == "memory" and spec.mode is not OutputMode.COMPLETE:
        raise CheckpointNotResumable(spec.name, spec.sink.describe(), where=spec.table.location)


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
