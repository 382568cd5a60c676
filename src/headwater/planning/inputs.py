"""What a table's query reads, and where that is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headwater.connectors.interface import Connector
from headwater.definitions import Definition, Lookup, OutputMode, Source, Table
from headwater.errors import ConnectionMissing, NotReadable
from headwater.graph import Graph
from headwater.runtime.specification import connection_of
from headwater.runtime.storage import Storage
from headwater.settings import Settings

_SECRET = re.compile(r"password|secret|token|passphrase|credential|jaas", re.I)
_USER_IN_URL = re.compile(r"(//)[^/@\s]+@")
_UNKNOWN = {"bootstrap_servers": "unknown:0", "url": "unknown", "host": "unknown", "port": "0"}


@dataclass(frozen=True, slots=True)
class StreamInput:
    """A source, or an append table that is read as a stream."""

    name: str
    connector: Connector
    definition: Source | Table


@dataclass(frozen=True, slots=True)
class Address:
    """Where one source, lookup or sink is, and who said so; holds no secret."""

    what: str
    system: str
    address: str | None
    origin: str
    problem: str | None = None


def stream_inputs(
    graph: Graph,
    table: str,
    sinks: Mapping[str, Connector],
    modes: Mapping[str, OutputMode],
) -> list[StreamInput]:
    found = []
    for definition in graph.reads_directly(table):
        if isinstance(definition, Source):
            found.append(StreamInput(definition.name, definition.connector, definition))
        if isinstance(definition, Table) and modes.get(definition.name) is OutputMode.APPEND:
            found.append(StreamInput(definition.name, sinks[definition.name], definition))
    return found


def require_readable_tables(graph: Graph, table: Table, sinks: Mapping[str, Connector]) -> None:
    """A table that another one reads must be kept where it can be read back with its columns."""
    for definition in graph.reads_directly(table.name):
        if isinstance(definition, Table) and not sinks[definition.name].keeps_columns:
            sink = sinks[definition.name].describe()
            raise NotReadable(
                sink,
                f"the table {definition.name!r}, which {table.name!r} does",
                found="only Delta tables and files give rows back with their columns",
                remedy=f"leave into= out of {definition.name!r}, or read what it reads",
                where=table.location,
            )


def address_of(what: str, connector: Connector, settings: Settings) -> Address:
    """The address of a connector without its secrets; a missing one is told, not raised."""
    if not connector.needs_connection:
        place = connector.place(settings.folder, connector.system)
        return Address(what, connector.describe(), place, "its definition")
    try:
        connection = connection_of(connector, settings)
    except ConnectionMissing as problem:
        return Address(what, connector.describe(), None, "nobody", problem.what)
    assert connection is not None
    shown = [
        f"{name}={_without_user(value)}"
        for name, value in connection.options.items()
        if not _SECRET.search(name) and not _SECRET.search(value.partition("?")[2])
    ]
    return Address(what, connector.describe(), ", ".join(shown), connection.origin)


def _without_user(value: str) -> str:
    return _USER_IN_URL.sub(r"\1…@", value)


def addresses_of(
    graph: Graph, table: Table, sink: Connector, settings: Settings, storage: Storage
) -> tuple[Address, ...]:
    read = [_read_address(d, settings) for d in graph.reads_directly(table.name)]
    written = address_of("sink", sink, settings)
    if table.into is None:
        origin = f"storage of profile {settings.profile}"
        written = replace(written, address=storage.table(table.name), origin=origin)
    return (*(a for a in read if a), written)


def _read_address(definition: Definition, settings: Settings) -> Address | None:
    if isinstance(definition, Source):
        return address_of(f"source {definition.name}", definition.connector, settings)
    if isinstance(definition, Lookup):
        return address_of(f"lookup {definition.name}", definition.connector, settings)
    return None


def with_placeholders(settings: Settings, connectors: list[Connector]) -> Settings:
    """Settings under which a stream can be looked at although its connection is not known."""
    connections = dict(settings.connections)
    for connector in connectors:
        try:
            connection_of(connector, settings)
        except ConnectionMissing:
            connections[connector.connection or connector.system] = _UNKNOWN
    return replace(settings, connections=connections)
