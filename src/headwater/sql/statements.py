"""The grammar: one function per statement and per clause.

Spark 4.2 has `CREATE STREAMING TABLE`, `CREATE MATERIALIZED VIEW`, `CREATE VIEW`, `STREAM` and
`WATERMARK … DELAY OF`; ours read like them. A clause is the Python argument's name in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.definitions import (
    NO_GUARD,
    PERFECT,
    Definition,
    Guarantee,
    Late,
    Limit,
    Lookup,
    OnDataLoss,
    OnReject,
    OutputMode,
    Source,
    SqlBody,
    Table,
    Trigger,
    View,
    WatermarkPolicy,
    chosen,
)
from headwater.errors import Location, SqlSyntax
from headwater.schemas import normal_schema
from headwater.sql.cursor import Cursor
from headwater.sql.intervals import interval
from headwater.sql.options import connector
from headwater.sql.queries import select_body
from headwater.tokens import TokenKind

if TYPE_CHECKING:
    from headwater.connectors.interface import Connector

Read = Callable[[Cursor], Any]

STATEMENTS = (
    "CREATE STREAMING SOURCE",
    "CREATE LOOKUP",
    "CREATE VIEW",
    "CREATE STREAMING TABLE",
    "CREATE MATERIALIZED VIEW",
)
_REMEDIES = {
    "SELECT": "name the result: CREATE STREAMING TABLE name AS SELECT …",
    "WITH": "name the result: CREATE STREAMING TABLE name AS WITH …",
    "OR": "leave OR REPLACE out: a file declares what there is, it replaces nothing",
    "IF": "leave IF NOT EXISTS out: a file declares what there is",
    "TABLE": "write CREATE STREAMING TABLE",
    "USING": "the sink of a table is spelled INTO",
    "COMMENT": "write a comment behind --",
}


@dataclass(frozen=True, slots=True)
class _Head:
    """What every statement begins with."""

    name: str
    location: Location


def statement(cursor: Cursor, text: str) -> Definition:
    """The declaration that a statement makes; `text` is the whole file."""
    location = Location(cursor.file, cursor.next.line)
    if not cursor.accept("CREATE"):
        raise _unexpected(cursor, STATEMENTS)
    if cursor.accept("STREAMING"):
        if cursor.accept("SOURCE"):
            return _source(cursor, _head(cursor, "the source", location), text)
        if not cursor.accept("TABLE"):
            raise _unexpected(cursor, ("SOURCE", "TABLE"))
        return _table(cursor, _head(cursor, "the table", location), text, _TABLE, None)
    if cursor.accept("MATERIALIZED"):
        cursor.expect("VIEW")
        head = _head(cursor, "the materialized view", location)
        return _table(cursor, head, text, _MATERIALIZED, OutputMode.COMPLETE)
    if cursor.accept("LOOKUP"):
        return _lookup(cursor, _head(cursor, "the lookup", location), text)
    is_temporary = cursor.accept("TEMPORARY") or cursor.accept("TEMP")
    if cursor.accept("VIEW"):
        head = _head(cursor, "the view", location)
        _clauses(cursor, {}, has_query=True)
        return View(head.name, _query(cursor, text), location=location)
    raise _unexpected(cursor, ["VIEW"] if is_temporary else [s[7:] for s in STATEMENTS])


def _head(cursor: Cursor, of: str, location: Location) -> _Head:
    if cursor.next.is_word("IF"):
        raise _unexpected(cursor, [f"the name of {of}"])
    return _Head(cursor.name(of), location)


def _source(cursor: Cursor, head: _Head, text: str) -> Source:
    schema = _schema(cursor, head, text)
    found = _clauses(cursor, _SOURCE, has_query=False)
    if "EVENT TIME" in found and "WATERMARK" in found:
        raise SqlSyntax(
            f"source {head.name!r} has both EVENT TIME and WATERMARK",
            where=head.location,
            remedy="WATERMARK names the event-time column itself; leave EVENT TIME out",
        )
    column, delay = found.get("WATERMARK", (found.get("EVENT TIME"), None))
    return Source(
        name=head.name,
        connector=_using(found, "source", head),
        schema=schema,
        event_time=column,
        watermark=delay,
        max_ahead=found.get("MAX AHEAD"),
        max_per_batch=found.get("MAX PER BATCH"),
        on_reject=found.get("ON REJECT", OnReject.CAPTURE),
        on_data_loss=found.get("ON DATA LOSS", OnDataLoss.FAIL),
        location=head.location,
    )


def _lookup(cursor: Cursor, head: _Head, text: str) -> Lookup:
    schema = _schema(cursor, head, text)
    found = _clauses(cursor, _LOOKUP, has_query=False)
    connector, reload = _using(found, "lookup", head), found.get("RELOAD")
    return Lookup(head.name, connector, schema, reload, location=head.location)


def _table(
    cursor: Cursor,
    head: _Head,
    text: str,
    clauses: Mapping[str, Read],
    mode: OutputMode | None,
) -> Table:
    found = _clauses(cursor, clauses, has_query=True)
    return Table(
        name=head.name,
        body=_query(cursor, text),
        into=found.get("INTO"),
        key=found.get("KEY", ()),
        order_by=found.get("ORDER BY", ()),
        mode=found.get("MODE", mode),
        trigger=found.get("TRIGGER", Trigger.default()),
        guarantee=found.get("GUARANTEE"),
        late=found.get("LATE"),
        watermarks=found.get("WATERMARKS", WatermarkPolicy.MINIMUM),
        unbounded_state=found.get("UNBOUNDED STATE", False),
        location=head.location,
    )


def _clauses(cursor: Cursor, readers: Mapping[str, Read], *, has_query: bool) -> dict[str, Any]:
    """Takes clauses in any order, each once, up to AS or the end."""
    found: dict[str, Any] = {}
    while not (cursor.accept("AS") if has_query else cursor.is_at_end):
        token = cursor.next
        name = next((name for name in readers if cursor.accept(*name.split())), None)
        if name is None:
            left = [name for name in readers if name not in found]
            raise _unexpected(cursor, [*left, "AS"] if has_query else [*left, "the end"])
        if name in found:
            raise cursor.error(f"{name} stands twice", token=token)
        found[name] = readers[name](cursor)
    return found


def _query(cursor: Cursor, text: str) -> SqlBody:
    """Takes the rest of the statement as its SELECT."""
    first = cursor.next
    if cursor.is_at_end:
        raise cursor.error(expected="a query, such as SELECT … FROM …")
    return select_body(text[first.offset : cursor.last.end], where=cursor.position())


def _schema(cursor: Cursor, head: _Head, text: str) -> str | None:
    """Takes `(column type [NOT NULL], …)` where it stands here."""
    if not cursor.next.is_symbol("("):
        return None
    where = cursor.position()
    inside = cursor.inside_parentheses("the columns")
    return normal_schema(text[inside[0].offset : inside[-1].offset], name=head.name, where=where)


def _using(found: Mapping[str, Any], kind: str, head: _Head) -> Connector:
    if "USING" not in found:
        raise SqlSyntax(
            f"{kind} {head.name!r} does not say where its rows are",
            where=head.location,
            expected="USING and a connector, such as USING csv OPTIONS (path = 'sites.csv')",
        )
    using: Connector = found["USING"]
    return using


def _watermark(cursor: Cursor) -> tuple[str, str]:
    column = cursor.name("the event-time column")
    if cursor.accept(PERFECT.upper()):
        return column, PERFECT
    cursor.expect("DELAY", "OF")
    return column, interval(cursor)


def _max_ahead(cursor: Cursor) -> str:
    return NO_GUARD if cursor.accept(NO_GUARD.upper()) else interval(cursor)


def _reload(cursor: Cursor) -> str:
    cursor.expect("EVERY")
    return interval(cursor)


def _late(cursor: Cursor) -> Late:
    where = cursor.position()
    return Late.parse(cursor.string("what happens, such as 'capture'"), where=where)


def _watermarks(cursor: Cursor) -> WatermarkPolicy:
    where = cursor.position()
    word = cursor.name("which watermark")
    return chosen(WatermarkPolicy, word, what="WATERMARKS", where=where)


def _event_time(cursor: Cursor) -> str:
    return cursor.name("the event-time column")


def _limit(cursor: Cursor) -> Limit:
    where = cursor.position()
    if cursor.next.kind not in (TokenKind.NUMBER, TokenKind.STRING):
        raise cursor.error(expected="an amount, such as 100000, '50 files' or '64 MB'")
    return Limit.parse(cursor.take().value, where=where)


def _on_reject(cursor: Cursor) -> OnReject:
    where = cursor.position()
    return chosen(OnReject, cursor.name("what happens"), what="ON REJECT", where=where)


def _on_data_loss(cursor: Cursor) -> OnDataLoss:
    where = cursor.position()
    return chosen(OnDataLoss, cursor.name("what happens"), what="ON DATA LOSS", where=where)


def _key(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect_symbol("(")
    columns = [cursor.name("a key column")]
    while cursor.accept_symbol(","):
        columns.append(cursor.name("a key column"))
    cursor.expect_symbol(")")
    return tuple(columns)


def _mode(cursor: Cursor) -> OutputMode:
    where = cursor.position()
    return chosen(OutputMode, cursor.name("an output mode"), what="MODE", where=where)


def _trigger(cursor: Cursor) -> Trigger:
    where = cursor.position()
    return Trigger.parse(cursor.string("a trigger, such as '1 second'"), where=where)


def _guarantee(cursor: Cursor) -> Guarantee:
    for guarantee in Guarantee:
        if cursor.accept(*guarantee.value.upper().split("_")):
            return guarantee
    raise cursor.error(choices=[g.value.upper().replace("_", " ") for g in Guarantee])


_LOOKUP: Mapping[str, Read] = {"USING": connector, "RELOAD": _reload}
_SOURCE: Mapping[str, Read] = {
    "USING": connector,
    "EVENT TIME": _event_time,
    "WATERMARK": _watermark,
    "MAX AHEAD": _max_ahead,
    "MAX PER BATCH": _limit,
    "ON REJECT": _on_reject,
    "ON DATA LOSS": _on_data_loss,
}
_MATERIALIZED: Mapping[str, Read] = {
    "INTO": connector,
    "KEY": _key,
    "ORDER BY": _key,
    "TRIGGER": _trigger,
    "GUARANTEE": _guarantee,
    "LATE": _late,
    "WATERMARKS": _watermarks,
    "UNBOUNDED STATE": lambda cursor: True,
}
_TABLE: Mapping[str, Read] = {**_MATERIALIZED, "MODE": _mode}


def _unexpected(cursor: Cursor, choices: Sequence[str]) -> SqlSyntax:
    return cursor.error(choices=choices, remedy=_REMEDIES.get(cursor.next.text.upper()))
