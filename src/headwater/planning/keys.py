"""Whether a batch of a query can hold several rows of one key, from its analysed plan.

The key is followed down: through names and projections to the first operator that makes one row
per something. A query is refused only where it is plain that several rows may come; what a Python
function or custom state gives out is known when it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.connectors.interface import Connector
from headwater.definitions import OutputMode, Table
from headwater.errors import KeyNeedsOrder, KeyUnknown
from headwater.event_time.entries import TIME_WINDOW
from headwater.event_time.plans import analyzed, class_name, items, plan_nodes
from headwater.jvm.classes import java_class
from headwater.planning.analysis import QueryFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def key_is_in_result(table: Table, facts: QueryFacts) -> None:
    columns = {column.lower() for column in facts.columns}
    for what, named in (("key", table.key), ("order_by", table.order_by)):
        for column in named:
            if column.lower() not in columns:
                raise KeyUnknown(table.name, column, facts.columns, what=what, where=table.location)


def the_last_row_of_a_key_is_known(
    table: Table, sink: Connector, mode: OutputMode, frame: DataFrame
) -> None:
    """Raises where a sink replaces rows by their key, a batch may hold several of one, and nothing
    says which of them is the last."""
    if mode is not OutputMode.UPDATE or not sink.replaces_by_key or table.order_by:
        return
    problem = several_rows(frame, table.key)
    if problem:
        column = _time_column(frame, table.key)
        raise KeyNeedsOrder(table.name, table.key, problem, column, where=table.location)


def is_told_apart(table: Table, mode: OutputMode, frame: DataFrame) -> bool:
    """Whether rows replace others by the table's key, and as far as is known a batch has one row of
    each."""
    has_other_key = "key" in frame.columns and table.key != ("key",)
    if not table.key or mode is OutputMode.APPEND or has_other_key:
        return False
    return several_rows(frame, table.key) is None


def several_rows(frame: DataFrame, key: Sequence[str]) -> str | None:
    """Why a batch may hold several rows of one key; None where it does not, or nobody knows."""
    plan = _without_ctes(frame)
    names = {name.lower() for name in key}
    wanted = [_id(column) for column in items(plan.output()) if str(column.name()).lower() in names]
    return _several(plan, _Trace(frozenset(wanted)))


def _time_column(frame: DataFrame, key: Sequence[str]) -> str:
    """What the rows are most likely ordered by."""
    times = [name for name, kind in frame.dtypes if kind.startswith("timestamp")]
    return next((name for name in times if name not in key), "at")


def _without_ctes(frame: DataFrame) -> Any:
    inline = java_class(frame.sparkSession, "org.apache.spark.sql.catalyst.optimizer.InlineCTE")
    return inline(True, False).apply(analyzed(frame))


@dataclass(frozen=True, slots=True)
class _Trace:
    """What the key's columns are at some place of a plan, by the ids of attributes."""

    same: frozenset[str]
    """Attributes that a column of the key is."""
    fields: frozenset[tuple[str, str]] = frozenset()
    """Fields of attributes that a column of the key is."""
    parts: frozenset[str] = frozenset()
    """Attributes that a column of the key is computed from."""

    def below(self, named: Iterable[Any]) -> _Trace:
        """The same columns below a list of expressions with names."""
        same, fields, parts = set(), set(), set()
        for one in named:
            name, expression = _id(one), _unaliased(one)
            kind = class_name(expression)
            used = {_id(attribute) for attribute in items(expression.references().toSeq())}
            if kind == "AttributeReference":
                inner = _id(expression)
                same |= {inner} if name in self.same else set()
                fields |= {(inner, field) for of, field in self.fields if of == name}
                parts |= {inner} if name in self.parts else set()
            elif name in self.same and _is_field(expression):
                fields.add((_id(expression.child()), str(expression.extractFieldName())))
            elif name in self.same | self.parts or any(of == name for of, _ in self.fields):
                parts |= used
        return _Trace(frozenset(same), frozenset(fields), frozenset(parts))

    def moved(self, ids: dict[str, str]) -> _Trace:
        """The same columns where attributes have other ids."""
        return _Trace(
            frozenset(ids[one] for one in self.same if one in ids),
            frozenset((ids[one], field) for one, field in self.fields if one in ids),
            frozenset(ids[one] for one in self.parts if one in ids),
        )

    def names(self, attribute: Any) -> bool:
        """Whether the key tells the values of an attribute apart."""
        return _id(attribute) in self.same or (
            # All windows of a query are of one length: one end tells the other.
            attribute.metadata().contains(TIME_WINDOW)
            and any(of == _id(attribute) for of, field in self.fields if field in ("start", "end"))
        )

    def may_name(self, attribute: Any) -> bool:
        return _id(attribute) in self.parts | {of for of, _ in self.fields}


def _several(node: Any, trace: _Trace) -> str | None:
    name = str(node.nodeName())
    if name in _SAME_ROWS or (name == "Join" and _keeps_left_rows(node)):
        return _several(node.children().apply(0), trace)
    if name == "Project":
        return _several(node.child(), trace.below(items(node.projectList())))
    if name == "Aggregate":
        return _of_groups(node, trace)
    if name in ("Deduplicate", "DeduplicateWithinWatermark", "Distinct"):
        return _of_distinct(node, trace)
    if name == "Union":
        return next(filter(None, (_several(c, t) for c, t in _branches(node, trace))), None)
    if name in ("Join", "Generate", "Expand") or not node.children().size():
        return _NOT_GROUPED if _is_plain(node) else None
    return None


_NOT_GROUPED = "nothing in the query makes one row per key: no aggregation, no dropDuplicates"
_SAME_ROWS = frozenset(
    {
        "CollectMetrics",
        "EventTimeWatermark",
        "Filter",
        "GlobalLimit",
        "LocalLimit",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "View",
    }
)
"""Operators that hand rows on, or leave some out."""
_MORE_ROWS = frozenset({"Expand", "Generate", "Join", "Project", "Union"})


def _is_plain(node: Any) -> bool:
    """Whether rows of a stream come through as they are, perhaps several times."""
    streams = [one for one in plan_nodes(node) if one.isStreaming()]
    return all(
        not one.children().size() or str(one.nodeName()) in _SAME_ROWS | _MORE_ROWS
        for one in streams
    )


def _keeps_left_rows(join: Any) -> bool:
    return str(join.joinType().toString()) in ("LeftSemi", "LeftAnti")


def _of_groups(aggregate: Any, trace: _Trace) -> str | None:
    """Grouping expressions have to be columns of the key."""
    grouping = [_unaliased(one) for one in items(aggregate.groupingExpressions())]
    results = list(items(aggregate.aggregateExpressions()))
    below = trace.below(results)
    missing = []
    for group in grouping:
        if group.foldable() or any(_is_same(one, group, trace) for one in results):
            continue
        is_column = class_name(group) == "AttributeReference"
        if is_column and below.names(group):
            continue
        used = [group] if is_column else list(items(group.references().toSeq()))
        if any(below.may_name(one) for one in used):
            return None
        missing.append(str(group.name() if is_column else group.sql()))
    if not missing:
        return None
    return f"it is grouped by more than the key: {', '.join(missing)}"


def _is_same(result: Any, group: Any, trace: _Trace) -> bool:
    return _id(result) in trace.same and bool(_unaliased(result).semanticEquals(group))


def _of_distinct(node: Any, trace: _Trace) -> str | None:
    columns = node.child().output() if str(node.nodeName()) == "Distinct" else node.keys()
    missing = [one for one in items(columns) if not trace.names(one)]
    if not missing or any(trace.may_name(one) for one in missing):
        return None
    if _several(node.child(), trace) is None:
        return None
    names = ", ".join(str(one.name()) for one in missing)
    return f"duplicates are dropped by more than the key: {names}"


def _branches(union: Any, trace: _Trace) -> list[tuple[Any, _Trace]]:
    own = [_id(column) for column in items(union.output())]
    found = []
    for child in items(union.children()):
        inner = [_id(column) for column in items(child.output())]
        if child.isStreaming():
            found.append((child, trace.moved(dict(zip(own, inner, strict=True)))))
    return found


def _unaliased(expression: Any) -> Any:
    return expression.child() if class_name(expression) == "Alias" else expression


def _is_field(expression: Any) -> bool:
    return (
        class_name(expression) == "GetStructField"
        and class_name(expression.child()) == "AttributeReference"
    )


def _id(attribute: Any) -> str:
    return str(attribute.exprId())
