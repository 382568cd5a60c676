"""The laws between a stream and a batch over the same rows."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.connectors.foreach import FunctionSink
from headwater.definitions import OutputMode, PaneValues, Table
from headwater.event_time.entries import PROCESSING_TIME
from headwater.event_time.panes import INDEX, RETRACTED
from headwater.graph import Graph
from headwater.planning.plan import Plan
from headwater.runtime.specification import QuerySpec
from headwater.testing.kept import Row
from headwater.testing.scene import Content
from headwater.testing.values import difference, moment_ms


@dataclass(frozen=True, slots=True)
class TableLaw:
    """What must hold for one table, from what it is."""

    spec: QuerySpec
    is_stateful: bool
    follows_state: bool
    """Whether a table behind it keeps rows back until the watermark passes."""
    is_closable: bool
    """Whether the watermarks of all its sources can be moved to the end, and reach it."""
    is_comparable: bool
    """False where its content depends on the moment: a table read as a lookup, timers by the
    clock."""
    is_function: bool
    """Whether rows go to a user's function: only what it stored in the end can be compared."""
    has_timers: bool
    """Whether timers write rows, which no batch does: it is compared with a stream of one batch."""

    @property
    def has_panes(self) -> bool:
        return self.spec.late is not None and self.spec.late.has_panes

    @property
    def name(self) -> str:
        return self.spec.name


def law_of(graph: Graph, plan: Plan, table: str) -> TableLaw:
    spec = plan.tables[table].query
    behind = tables_behind(graph, table)
    modes = {name: plan.tables[name].query.mode for name in behind}
    timers = {name: _timers(plan, name) for name in (table, *behind)}
    sources = {
        source.name: source for name in (table, *behind) for source in graph.sources_of(name)
    }
    return TableLaw(
        spec=spec,
        is_stateful=_is_stateful(plan, table),
        follows_state=any(_is_stateful(plan, name) for name in behind),
        is_closable=all(source.watermark for source in sources.values())
        and not (behind and _is_stateful(plan, table)),
        is_comparable=all(mode is OutputMode.APPEND for mode in modes.values())
        and PROCESSING_TIME not in timers[table]
        and not any(timers[name] for name in behind),
        is_function=isinstance(spec.sink, FunctionSink),
        has_timers=bool(timers[table]),
    )


def _timers(plan: Plan, table: str) -> frozenset[str]:
    decisions = plan.tables[table].decisions
    return frozenset() if decisions is None else decisions.facts.timers


def _is_stateful(plan: Plan, table: str) -> bool:
    decisions = plan.tables[table].decisions
    return decisions is not None and bool(decisions.facts.stateful)


def tables_behind(graph: Graph, table: str) -> list[str]:
    """The tables that a table reads, and those that they read."""
    found: list[str] = []
    for definition in graph.reads_directly(table):
        if isinstance(definition, Table) and definition.name not in found:
            found += [definition.name, *tables_behind(graph, definition.name)]
    return found


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows that the stream lacks and rows that it has too many, and the law that says so."""

    law: str
    missing: list[Row]
    extra: list[Row]

    @property
    def is_exact(self) -> bool:
        return self.law.startswith(("the stream's result", "what the function"))


def of_prefix(
    law: TableLaw, stream: Content, batch: Content, watermark_ms: int | None
) -> Difference | None:
    """What is wrong after some of the input; None where the law holds or says nothing yet."""
    if law.follows_state or law.is_function or law.has_timers or law.has_panes:
        return None
    if not law.is_comparable:
        return None
    mode = law.spec.mode
    missing, extra = difference(batch.rows, stream.rows)
    if mode is OutputMode.APPEND and law.is_stateful:
        missing = _closed(batch, missing, watermark_ms)
        words = "rows written so far are those of the batch whose windows the watermark has closed"
        return _found(words, missing, extra)
    if mode is OutputMode.UPDATE and not law.spec.table.key and law.is_stateful:
        return _found("every row of the batch was written as an update", missing, [])
    return _found("the stream's result is the batch's on every prefix", missing, extra)


def of_end(law: TableLaw, stream: Content, batch: Content) -> Difference | None:
    """What is wrong after all of the input, with every window closed that can be."""
    if not law.is_comparable:
        return None
    if law.has_panes:
        return _of_panes(law, stream, batch)
    missing, extra = difference(batch.rows, stream.rows)
    keeps_back = law.follows_state or (law.spec.mode is OutputMode.APPEND and law.is_stateful)
    if keeps_back and not law.is_closable:
        if law.follows_state and law.spec.mode is not OutputMode.APPEND:
            return None
        return _found("every row of the stream is one of the batch", [], extra)
    is_loose = law.spec.mode is OutputMode.UPDATE and not law.spec.table.key and law.is_stateful
    if is_loose and not law.is_function:
        return _found("every row of the batch was written as an update", missing, [])
    words = "the stream's result is the batch's"
    if law.is_function:
        words = "what the function stored is what it stores when all rows come in one batch"
    elif law.has_timers:
        words = "the stream's result is that of a stream with all rows in one batch"
    return _found(words, missing, extra)


def _of_panes(law: TableLaw, stream: Content, batch: Content) -> Difference | None:
    """The last pane of every key is the batch; what panes of differences add up to is not asked."""
    late, key = law.spec.late, law.spec.table.key
    if late is None or late.values is PaneValues.DISCARDING or not key or not law.is_closable:
        return None
    names = stream.schema.names
    newest: dict[str, tuple[int, Row]] = {}
    for row in stream.rows:
        values = dict(zip(names, row, strict=True))
        if values.get(RETRACTED):
            continue
        group = repr([values[column] for column in key])
        if group not in newest or newest[group][0] <= values[INDEX]:
            whole = tuple(values[name] for name in batch.schema.names)
            newest[group] = (values[INDEX], whole)
    missing, extra = difference(batch.rows, [row for _, row in newest.values()])
    return _found("the last pane of every window is the batch's", missing, extra)


def _closed(batch: Content, rows: list[Row], watermark_ms: int | None) -> list[Row]:
    """The rows whose window has ended for the watermark, where a column says which it is."""
    if watermark_ms is None or "window" not in batch.schema.names:
        return []
    index = batch.schema.names.index("window")
    return [
        row
        for row in rows
        if isinstance(row[index], dict) and moment_ms(row[index]["end"]) <= watermark_ms
    ]


def _found(law: str, missing: list[Row], extra: list[Row]) -> Difference | None:
    return Difference(law, missing, extra) if missing or extra else None
