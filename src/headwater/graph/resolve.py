"""Names become edges; the order in which tables can be built and started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headwater import sql
from headwater.definitions import (
    Definition,
    Definitions,
    Lookup,
    Model,
    PythonBody,
    Source,
    SqlBody,
    Table,
    View,
)
from headwater.errors import CyclicReads, UnknownInput


@dataclass(frozen=True, slots=True)
class Edge:
    """`reader` takes `read` as its parameter (or, in SQL, under the name) `parameter`."""

    reader: str
    parameter: str
    read: str


@dataclass(frozen=True, slots=True)
class Graph:
    """Definitions with their edges; `order` names every view and table after what it reads."""

    definitions: Definitions
    edges: Mapping[str, tuple[Edge, ...]]
    order: tuple[str, ...]

    def __getitem__(self, name: str) -> Definition:
        return self.definitions.by_name[name]

    def inputs(self, name: str) -> tuple[Edge, ...]:
        return self.edges.get(name, ())

    @property
    def tables(self) -> dict[str, Table]:
        return {name: d for name in self.order if isinstance(d := self[name], Table)}

    def reads_directly(self, table: str) -> list[Definition]:
        """Sources, lookups, models and other tables that a table's query reads, views seen
        through."""
        found: dict[str, Definition] = {}
        for name in self._behind(table):
            found.setdefault(name, self[name])
        return list(found.values())

    def needed_by(self, names: Iterable[str]) -> set[str]:
        """The definitions of these names and everything they read, directly or not."""
        found: set[str] = set()
        open_ones = list(names)
        while open_ones:
            name = open_ones.pop()
            if name not in found:
                found.add(name)
                open_ones += (edge.read for edge in self.inputs(name))
        return found

    def is_read(self, table: str) -> bool:
        """Whether another definition reads a table."""
        return any(edge.read == table for edges in self.edges.values() for edge in edges)

    def sources_of(self, table: str) -> list[Source]:
        return [d for d in self.reads_directly(table) if isinstance(d, Source)]

    def _behind(self, reader: str) -> Iterator[str]:
        for edge in self.inputs(reader):
            if isinstance(self[edge.read], View):
                yield from self._behind(edge.read)
            else:
                yield edge.read


def resolve(definitions: Definitions) -> Graph:
    """The graph of a pipeline; raises where a name is unknown or reads run in a circle."""
    edges = {
        name: tuple(_edges(d, definitions))
        for name, d in definitions.by_name.items()
        if isinstance(d, Model | View | Table)
    }
    return Graph(definitions, edges, _ordered(definitions, edges))


def _edges(reader: Model | View | Table, definitions: Definitions) -> Iterator[Edge]:
    for parameter in _parameters(reader):
        if isinstance(reader, Model):
            name = reader.trained_on
        else:
            name = reader.reads.get(parameter, parameter)
        if name not in definitions.by_name:
            kind = f"{type(reader).__name__.lower()} {reader.name!r}"
            names = set(definitions.by_name) - {reader.name}
            raise UnknownInput(kind, name, names, where=reader.location)
        yield Edge(reader.name, parameter, name)


def _parameters(reader: Model | View | Table) -> tuple[str, ...]:
    body = reader.body
    if isinstance(body, PythonBody):
        return body.parameters
    assert isinstance(body, SqlBody)
    return tuple(sorted(sql.tables_read(body.text, where=reader.location)))


def _ordered(definitions: Definitions, edges: Mapping[str, tuple[Edge, ...]]) -> tuple[str, ...]:
    done: dict[str, None] = {}

    def visit(name: str, path: list[str]) -> None:
        if name in done:
            return
        if name in path:
            cycle = [*path[path.index(name) :], name]
            raise CyclicReads(cycle, where=definitions.by_name[name].location)
        for edge in edges.get(name, ()):
            visit(edge.read, [*path, name])
        if not isinstance(definitions.by_name[name], Source | Lookup | Model):
            done[name] = None

    for name in definitions.by_name:
        visit(name, [])
    return tuple(done)
