"""Panes: a window that fires early, on time, and again for late rows.

Spark aggregates natively in update mode and keeps a window's state for the allowed lateness longer.
What it updates in a batch is joined here with what the ledger knows of the same groups: their last
value, what they fired, whether on time. All of it is columns; no row passes through Python.

The on-time watermark is Spark's watermark plus the allowed lateness: the watermark as the source
declared it. It goes by rows of earlier batches, so a row of this batch for a window that it has
passed is late, and the on-time firing holds what came before.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.definitions import EVERY_BATCH, Late, LateKind, PaneValues
from headwater.event_time.entries import Entry
from headwater.event_time.plans import analyzed, class_name, column_of, frame_of, items, part_at
from headwater.event_time.watermark import moment
from headwater.jvm.classes import LOGICAL, java_class, sequence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

GROUP, END = "__group", "__end"
"""Columns that a query with panes carries beside the user's: which group, and its window's end."""
PANE, INDEX, FINAL, PREVIOUS, RETRACTED = (
    "pane",
    "pane_index",
    "is_final",
    "previous",
    "is_retraction",
)


class Pane(enum.Enum):
    EARLY = "early"
    ON_TIME = "on_time"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Additive:
    """A column whose parts can be told apart by subtraction; an average by its sum and count."""

    name: str
    total: str
    count: str | None = None
    argument: Any = None
    """What an average is taken of."""


# The query


def with_groups(frame: DataFrame, entry: Entry, additive: Sequence[Additive] = ()) -> DataFrame:
    """The query with `GROUP` and `END` beside its columns, and the sums of averages."""
    spark = frame.sparkSession
    hidden = hidden_columns(additive)
    path = entry.path[:-1]
    aggregate = part_at(analyzed(frame), path)
    plan = _carried(
        spark, analyzed(frame), path, _with_hidden(spark, aggregate, entry, additive), hidden
    )
    return frame_of(spark, plan)


def _with_hidden(
    spark: SparkSession, aggregate: Any, entry: Entry, additive: Sequence[Additive]
) -> Any:
    from pyspark.sql import functions as F

    window = column_of(spark, entry.moment)
    grouping = [
        column_of(spark, expression).alias(f"g{number}")
        for number, expression in enumerate(items(aggregate.groupingExpressions()))
    ]
    columns = [F.struct(*grouping).alias(GROUP), window["end"].alias(END)]
    for one in additive:
        if one.count is not None:
            argument = column_of(spark, one.argument)
            columns += [F.sum(argument).alias(one.total), F.count(argument).alias(one.count)]
    given = list(items(aggregate.aggregateExpressions()))
    listed = sequence(spark, [*given, *(_named_expression(spark, c) for c in columns)])
    grouped, child, hint = aggregate.groupingExpressions(), aggregate.child(), aggregate.hint()
    return java_class(spark, LOGICAL + "Aggregate")(grouped, listed, child, hint)


def _carried(
    spark: SparkSession, plan: Any, path: Sequence[int], part: Any, hidden: Sequence[str]
) -> Any:
    """The plan above a part, which hands the hidden columns on."""
    from pyspark.sql import functions as F

    if not path:
        return part
    children = list(items(plan.children()))
    children[path[0]] = _carried(spark, children[path[0]], path[1:], part, hidden)
    if str(plan.nodeName()) != "Project":
        return plan.withNewChildren(sequence(spark, children))
    names = [_named_expression(spark, F.col(name)) for name in hidden]
    listed = sequence(spark, [*items(plan.projectList()), *names])
    return java_class(spark, LOGICAL + "Project")(listed, children[0])


def _named_expression(spark: SparkSession, column: Column) -> Any:
    tools = java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils")
    return tools.toNamed(spark._jsparkSession.expression(column._jc))


# Which columns can be taken apart


def additive_columns(frame: DataFrame, entry: Entry) -> tuple[list[Additive], list[str]]:
    """The aggregates among the result's columns: those that can be subtracted, and those not."""
    aggregate = part_at(analyzed(frame), entry.path[:-1])
    functions = {
        str(named.exprId()): named.child()
        for named in items(aggregate.aggregateExpressions())
        if class_name(named) == "Alias"
    }
    origins = _origins(analyzed(frame), entry.path[:-1])
    additive, others = [], []
    for attribute in items(analyzed(frame).output()):
        name = str(attribute.name())
        origin = origins.get(str(attribute.exprId()), str(attribute.exprId()))
        kind = _function(functions.get(origin))
        if kind in ("Count", "Sum"):
            additive.append(Additive(name, name))
        elif kind == "Average":
            number = len(additive)
            argument = functions[origin].aggregateFunction().children().apply(0)
            additive.append(Additive(name, f"__sum_{number}", f"__count_{number}", argument))
        elif kind is not None or _reads_aggregates(analyzed(frame), attribute, functions, origins):
            others.append(name)
    return additive, others


def _origins(plan: Any, path: Sequence[int]) -> dict[str, str]:
    """Ids of columns that only rename one, by the id of the column that the aggregate made."""
    projects = []
    for number in path:
        if str(plan.nodeName()) == "Project":
            projects.append(plan)
        plan = plan.children().apply(number)
    found: dict[str, str] = {}
    for project in reversed(projects):
        for named in items(project.projectList()):
            if class_name(named) == "Alias" and class_name(named.child()) == "AttributeReference":
                inner = str(named.child().exprId())
                found[str(named.exprId())] = found.get(inner, inner)
    return found


def _reads_aggregates(plan: Any, attribute: Any, functions: Any, origins: dict[str, str]) -> bool:
    """Whether a column is computed from an aggregate rather than being one."""
    wanted = str(attribute.exprId())
    while str(plan.nodeName()) in ("Project", "SubqueryAlias", "Filter"):
        if str(plan.nodeName()) == "Project":
            for named in items(plan.projectList()):
                if class_name(named) != "Alias" or str(named.exprId()) != wanted:
                    continue
                read = [str(a.exprId()) for a in items(named.child().references().toSeq())]
                return any(_function(functions.get(origins.get(r, r))) for r in read)
        plan = plan.children().apply(0)
    return False


def _function(expression: Any) -> str | None:
    """The aggregate function of an expression; "other" where it is more than one function."""
    if expression is None:
        return None
    if class_name(expression) == "AggregateExpression":
        function = expression.aggregateFunction()
        return class_name(function) if not expression.isDistinct() else "other"
    parts = [_function(child) for child in items(expression.children())]
    return "other" if any(parts) else None


def hidden_columns(additive: Sequence[Additive]) -> list[str]:
    """The columns that a query with panes carries beside the user's."""
    sums = [name for one in additive if one.count for name in (one.total, one.count)]
    return [GROUP, END, *sums]


# One batch


@dataclass(frozen=True, slots=True)
class PaneClock:
    """Where a batch stands: Spark's watermark, the on-time one, whether early firings are due."""

    watermark_ms: int
    on_time_ms: int
    fires_early: bool


class PaneMaker:
    """Turns the groups that a batch updated into panes, given what the ledger holds of them."""

    def __init__(self, late: Late, columns: StructType, additive: Sequence[Additive]) -> None:
        self._late = late
        self._columns = columns
        self._additive = {one.name: one for one in additive}
        self._names = [name for name in columns.names if name not in hidden_columns(additive)]
        self._kept = [name for name in columns.names if name not in (GROUP, END)]

    def decided(
        self, updated: DataFrame, known: DataFrame | None, at: PaneClock, shared: Collection[int]
    ) -> DataFrame:
        """Per group: the panes that it fires, and what the ledger holds of it from now on.

        `shared` are the ends of the windows that both sides may have. Most windows that fire on
        time get no rows in that batch, and most that get rows are new: those need no join.
        """
        from pyspark.sql import functions as F

        new = updated.select(GROUP, F.col(END).alias("new_end"), F.struct(*self._kept).alias("new"))
        if known is None:
            return self._fired(self._unknown(new), at)
        if not shared:
            apart = self._unknown(new).unionByName(self._untouched(known))
            return self._fired(apart, at)
        in_both, held = _is_in("new_end", shared), _is_in("end", shared)
        joined = new.where(in_both).join(known.where(held), GROUP, "full_outer")
        apart = self._unknown(new.where(~in_both)).unionByName(self._untouched(known.where(~held)))
        return self._fired(apart.unionByName(joined), at)

    def on_time(self, known: DataFrame, at: PaneClock) -> DataFrame:
        """The panes of windows that fire on time what the ledger holds of them."""
        from pyspark.sql import functions as F

        is_over = F.col("end") <= moment(known.sparkSession, F.lit(at.watermark_ms))
        pane = self._pane_columns(
            Pane.ON_TIME, F.col("fired_index"), is_over, F.col("value"), F.col("fired")
        )
        return known.where(~F.col("was_on_time")).select(*pane)

    def panes(self, decided: DataFrame) -> DataFrame:
        """The panes of groups, a row each."""
        from pyspark.sql import functions as F

        return decided.select(F.explode("panes").alias("p")).select("p.*")

    def fired_since(self, known: DataFrame, ends: Collection[int]) -> DataFrame:
        """Groups of the ledger, where some windows fired on time after they were written."""
        from pyspark.sql import functions as F

        has_fired = _is_in("end", ends)
        return known.select(
            GROUP,
            "value",
            F.when(has_fired, F.col("value")).otherwise(F.col("fired")).alias("fired"),
            (F.col("fired_index") + has_fired.cast("int")).alias("fired_index"),
            (F.col("was_on_time") | has_fired).alias("was_on_time"),
            (F.col("is_dirty") & ~has_fired).alias("is_dirty"),
            "end",
        )

    def _unknown(self, new: DataFrame) -> DataFrame:
        """Groups of which the ledger holds nothing."""
        from pyspark.sql import functions as F

        return new.select(
            "*",
            F.lit(None).cast(self._row_type()).alias("value"),
            F.lit(None).cast(self._row_type()).alias("fired"),
            F.lit(None).cast("int").alias("fired_index"),
            F.lit(None).cast("boolean").alias("was_on_time"),
            F.lit(None).cast("boolean").alias("is_dirty"),
            F.lit(None).cast("timestamp").alias("end"),
        )

    def _untouched(self, known: DataFrame) -> DataFrame:
        """Groups that the batch brought nothing for."""
        from pyspark.sql import functions as F

        return known.select(
            "*",
            F.lit(None).cast("timestamp").alias("new_end"),
            F.lit(None).cast(self._row_type()).alias("new"),
        )

    def _fired(self, joined: DataFrame, at: PaneClock) -> DataFrame:
        from pyspark.sql import functions as F

        end = F.coalesce("new_end", "end")
        is_new = F.col("new").isNotNull()
        spark = joined.sparkSession
        is_past = end <= moment(spark, F.lit(at.on_time_ms))
        is_over = end <= moment(spark, F.lit(at.watermark_ms))
        was_known = F.col("value").isNotNull()
        was_on_time = F.coalesce("was_on_time", F.lit(False))
        index = F.coalesce("fired_index", F.lit(0))
        # On time: what was known before this batch, once the on-time watermark has passed.
        fires_on_time = was_known & is_past & ~was_on_time
        on_time = self._pane(Pane.ON_TIME, index, is_over & ~is_new, F.col("value"), F.col("fired"))
        fired = F.when(fires_on_time, F.col("value")).otherwise(F.col("fired"))
        index = index + fires_on_time.cast("int")
        is_dirty = (F.coalesce("is_dirty", F.lit(False)) & ~fires_on_time) | is_new
        value = F.coalesce("new", "value")
        fires_again, kind = self._again(is_past, is_over, is_new, is_dirty, at)
        again = self._pane(kind, index, is_over, value, fired)
        panes = F.filter(
            F.array(F.when(fires_on_time, on_time), F.when(fires_again, again)),
            lambda pane: pane.isNotNull(),
        )
        return joined.select(
            panes.alias("panes"),
            GROUP,
            value.alias("value"),
            F.when(fires_again, value).otherwise(fired).alias("fired"),
            (index + fires_again.cast("int")).alias("fired_index"),
            is_past.alias("was_on_time"),
            (is_dirty & ~fires_again).alias("is_dirty"),
            end.alias("end"),
        )

    def _again(
        self, is_past: Column, is_over: Column, is_new: Column, is_dirty: Column, at: PaneClock
    ) -> tuple[Column, Column | Pane]:
        """Whether a group fires beside its on-time pane, and as what."""
        from pyspark.sql import functions as F

        kind = F.when(is_past, Pane.LATE.value).otherwise(Pane.EARLY.value)
        if self._late.kind is LateKind.ALLOW:
            return is_over & is_dirty, Pane.LATE
        fires = is_past & is_new
        if self._late.early == EVERY_BATCH:
            fires = fires | (~is_past & is_new)
        elif self._late.early is not None and at.fires_early:
            fires = fires | (~is_past & is_dirty)
        return fires, kind

    def _pane(
        self,
        kind: Column | Pane,
        index: Column,
        is_final: Column,
        value: Column,
        fired: Column,
    ) -> Column:
        from pyspark.sql import functions as F

        return F.struct(*self._pane_columns(kind, index, is_final, value, fired))

    def _pane_columns(
        self, kind: Column | Pane, index: Column, is_final: Column, value: Column, fired: Column
    ) -> list[Column]:
        from pyspark.sql import functions as F

        return [
            (F.lit(kind.value) if isinstance(kind, Pane) else kind).alias(PANE),
            index.alias(INDEX),
            is_final.alias(FINAL),
            value.alias("value"),
            fired.alias("fired"),
        ]

    def rows(self, panes: DataFrame) -> DataFrame:
        """Panes as the rows that go to the sink."""
        from pyspark.sql import functions as F

        previous = F.col("fired")
        shown = [self._shown(name).alias(name) for name in self._names]
        about = [PANE, INDEX, FINAL]
        fields = [previous[name].alias(name) for name in self._names]
        before = F.when(previous.isNotNull(), F.struct(*fields))
        rows = panes.select(*shown, *about, before.alias(PREVIOUS))
        if self._late.values is not PaneValues.RETRACTING:
            return rows
        taken = panes.where(previous.isNotNull()).select(
            *fields,
            *about,
            before.alias(PREVIOUS),
            F.lit(True).alias(RETRACTED),
        )
        return taken.unionByName(rows.withColumn(RETRACTED, F.lit(False)))

    def _shown(self, name: str) -> Column:
        from pyspark.sql import functions as F

        value, fired = F.col("value"), F.col("fired")
        one = self._additive.get(name)
        if self._late.values is not PaneValues.DISCARDING or one is None:
            return value[name]
        if one.count is None:
            kind = self._columns[name].dataType
            return (value[name] - F.coalesce(fired[name], F.lit(0).cast(kind))).cast(kind)
        total = value[one.total] - F.coalesce(fired[one.total], F.lit(0))
        count = value[one.count] - F.coalesce(fired[one.count], F.lit(0))
        return F.when(count != 0, total / count)

    def _row_type(self) -> StructType:
        from pyspark.sql.types import StructField, StructType

        fields = [self._columns[name] for name in self._kept]
        return StructType([StructField(f.name, f.dataType) for f in fields])


def _is_in(column: str, ends: Collection[int]) -> Column:
    """Whether a moment is one of the ends of some windows. An array is handed over beside the code
    of a stage, which Spark then compiles once."""
    from pyspark.sql import functions as F

    moments = F.array(*[F.timestamp_millis(F.lit(end)) for end in sorted(ends)])
    return F.array_contains(moments, F.col(column))


def newest_panes(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """The last pane of every key, for sinks that keep one row of each."""
    from pyspark.sql import functions as F

    whole = F.struct(*rows.columns)
    newest = rows.groupBy(*[F.col(f"`{name}`") for name in key]).agg(
        F.max_by(whole, F.col(INDEX)).alias("__newest")
    )
    return newest.select("__newest.*")
