"""Where rows enter an operator with state, and when they are too late for it.

A late row is one that reaches a window which the watermark has closed: `window.end <= watermark`
for time windows, `event time <= watermark` for everything else (sessions, joins, deduplication,
custom state). Only the first operator with state on a row's way is asked: what it hands on is
younger than the watermark by Spark's own rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.event_time.plans import analyzed, class_name, items, part_at, plan_nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AGGREGATION = "aggregation"
DEDUPLICATION = "deduplication"
JOIN = "stream-stream join"
CUSTOM = "custom state"
LIMIT = "limit"
EVENT_TIME = "EventTime"
PROCESSING_TIME = "ProcessingTime"

STATEFUL = {
    "Aggregate": AGGREGATION,
    "Distinct": AGGREGATION,
    "Deduplicate": DEDUPLICATION,
    "DeduplicateWithinWatermark": DEDUPLICATION,
    "FlatMapGroupsWithState": CUSTOM,
    "FlatMapGroupsInPandasWithState": CUSTOM,
    "TransformWithState": CUSTOM,
    "TransformWithStateInPySpark": CUSTOM,
    "TransformWithStateInPandas": CUSTOM,
    "GlobalLimit": LIMIT,
}
_DELAY = "spark.watermarkDelayMs"
TIME_WINDOW = "spark.timeWindow"
SESSION_WINDOW = "spark.sessionWindow"


@dataclass(frozen=True, slots=True)
class WindowShape:
    """A time window as Spark planned it; `time` is the expression that it was made from."""

    duration_us: int
    slide_us: int
    start_us: int
    time: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One way into an operator with state. `path` leads to the plan whose rows enter there."""

    kind: str
    path: tuple[int, ...]
    moment: Any | None
    """The attribute that carries the watermark; None where nothing can be late."""
    window: WindowShape | None = None
    is_session: bool = False
    rows_path: tuple[int, ...] | None = None
    """Leads to the rows below the windows, where nothing but windows is between them and the
    operator: each row is there once, with its event time."""

    @property
    def side(self) -> int:
        return self.path[-1]


def is_stateful(node: Any) -> bool:
    """Whether an operator keeps state from batch to batch."""
    if not node.isStreaming():
        return False
    name = str(node.nodeName())
    if name == "Join":
        return bool(node.left().isStreaming() and node.right().isStreaming())
    return name in STATEFUL


def kind_of(node: Any) -> str:
    return STATEFUL.get(str(node.nodeName()), JOIN)


def entries_of(frame: DataFrame) -> list[Entry]:
    """Every way into a first operator with state."""
    found: list[Entry] = []
    _find(analyzed(frame), (), found)
    return found


def _find(node: Any, path: tuple[int, ...], found: list[Entry]) -> bool:
    """Whether a plan keeps state; adds the ways into its first operators that do. Every call into
    the JVM takes its time, so each node is asked once."""
    if not node.isStreaming():
        return False
    children = list(items(node.children()))
    below = [_find(child, (*path, number), found) for number, child in enumerate(children)]
    if not is_stateful(node):
        return any(below)
    for number, child in enumerate(children):
        if not below[number] and child.isStreaming():
            found.append(_entry(node, child, (*path, number)))
    return True


def _entry(node: Any, child: Any, path: tuple[int, ...]) -> Entry:
    kind, moment = kind_of(node), _moment(node, child)
    if moment is None:
        return Entry(kind, path, None)
    if moment.metadata().contains(SESSION_WINDOW):
        return Entry(kind, path, moment, is_session=True)
    if not moment.metadata().contains(TIME_WINDOW):
        return Entry(kind, path, moment)
    window = _shape(child, moment)
    below = None if window is None else _below_windows(child, window)
    return Entry(kind, path, moment, window, rows_path=None if below is None else (*path, *below))


def _moment(node: Any, child: Any) -> Any | None:
    """The attribute by which Spark itself judges whether a row is too late for an operator."""
    name = str(node.nodeName())
    if name in ("Aggregate", "Distinct"):
        grouping = node.groupingExpressions() if name == "Aggregate" else child.output()
        return _with_watermark(grouping)
    if name == "GlobalLimit":
        return None
    if kind_of(node) == CUSTOM and time_of_timers(node) != EVENT_TIME:
        return None
    return _with_watermark(child.output())


def time_of_timers(node: Any) -> str | None:
    """By which time an operator of custom state is called without a row; None where it is not."""
    if kind_of(node) != CUSTOM:
        return None
    is_new = str(node.nodeName()).startswith("TransformWithState")
    text = str(node.timeMode() if is_new else node.timeout())
    return next((time for time in (EVENT_TIME, PROCESSING_TIME) if time in text), None)


def _with_watermark(attributes: Any) -> Any | None:
    for attribute in items(attributes):
        if class_name(attribute) == "AttributeReference" and attribute.metadata().contains(_DELAY):
            return attribute
    return None


# The shape of a window, from the expression that Spark makes of `window(…)`:
# start = time - remainder((time - start_time) % slide) - i * slide, end = start + duration


def _shape(plan: Any, moment: Any) -> WindowShape | None:
    definition = _definition(plan, moment)
    if definition is None or class_name(definition) != "CreateNamedStruct":
        return None
    end = definition.valExprs().apply(1)
    remainder = next((e for e in _parts(end) if class_name(e) == "Remainder"), None)
    total = next((e for e in _parts(end) if class_name(e) == "Add"), None)
    if remainder is None or total is None:
        return None
    elapsed = remainder.left()
    if class_name(elapsed) != "Subtract":
        return None
    return WindowShape(
        duration_us=int(total.right().value()),
        slide_us=int(remainder.right().value()),
        start_us=int(elapsed.right().value()),
        time=elapsed.left().child(),
    )


def _below_windows(child: Any, window: WindowShape) -> tuple[int, ...] | None:
    """The way from the rows with windows to those without, if only windows are on it."""
    node, steps = child, 0
    while str(node.nodeName()) in ("Project", "Filter", "Expand", "SubqueryAlias"):
        below = node.children().apply(0)
        kind = str(node.nodeName())
        if kind == "Filter" and not _is_of_windows(node, window):
            return None
        if kind == "Project" and not _only_names(node):
            return None
        node, steps = below, steps + 1
        if _makes_windows(child, steps):
            break
    else:
        return None
    own = [str(a.exprId()) for a in items(child.output()) if not a.metadata().contains(TIME_WINDOW)]
    rows = [str(a.exprId()) for a in items(node.output())]
    times = {str(a.exprId()) for a in items(window.time.references().toSeq())}
    return (0,) * steps if own == rows and times <= set(rows) else None


def _makes_windows(child: Any, steps: int) -> bool:
    """Whether the last of some steps down was the one that made the windows."""
    node = part_at(child, (0,) * (steps - 1))
    if str(node.nodeName()) == "Expand":
        return True
    return str(node.nodeName()) == "Project" and any(
        class_name(expression) == "CreateNamedStruct" for _, expression in _named(node)
    )


def _only_names(project: Any) -> bool:
    """Whether a projection renames, and makes windows, and does nothing else."""
    return all(
        class_name(expression) in ("AttributeReference", "CreateNamedStruct")
        for _, expression in _named(project)
    )


def _is_of_windows(filtered: Any, window: WindowShape) -> bool:
    """Whether a filter only asks which windows a moment falls into."""
    condition = filtered.condition()
    used = {str(a.name()) for a in items(condition.references().toSeq())}
    times = {str(a.name()) for a in items(window.time.references().toSeq())}
    if class_name(condition) == "IsNotNull":
        return used <= times
    return class_name(condition) == "And" and used == times | {"window"}


def _definition(plan: Any, attribute: Any) -> Any | None:
    """The expression behind an attribute, through everything that only renames it."""
    wanted = attribute.exprId()
    for node in plan_nodes(plan):
        for name, expression in _named(node):
            if not name.equals(wanted):
                continue
            if class_name(expression) != "AttributeReference":
                return expression
            wanted = expression.exprId()
    return None


def _named(node: Any) -> Iterator[tuple[Any, Any]]:
    """The expressions that a node gives a name, by the name's id."""
    kind = str(node.nodeName())
    if kind == "Project":
        for named in items(node.projectList()):
            if class_name(named) == "Alias":
                yield named.exprId(), named.child()
    if kind == "Expand":
        # One projection per window that a moment falls into; all windows have the same shape.
        first = items(node.projections().apply(0))
        for attribute, expression in zip(items(node.output()), first, strict=True):
            is_alias = class_name(expression) == "Alias"
            yield attribute.exprId(), expression.child() if is_alias else expression


def _parts(expression: Any) -> Iterator[Any]:
    yield expression
    for child in items(expression.children()):
        yield from _parts(child)


def entering(frame: DataFrame, entry: Entry) -> Any:
    """The plan whose rows enter at an entry."""
    return part_at(analyzed(frame), entry.path)
