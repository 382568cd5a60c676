"""Spark's logical plans, looked at and taken apart from Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headwater.jvm.classes import java_class, sequence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """A DataFrame over a plan, or over a part of one."""
    from pyspark.sql import DataFrame

    datasets = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(datasets.ofRows(spark._jsparkSession, plan), spark)


def column_of(spark: SparkSession, expression: Any) -> Column:
    """An expression of a plan as a column; names that stand twice make no difference to it."""
    from pyspark.sql import Column

    columns = java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils")
    return Column(columns.column(expression))


def items(sequence: Any) -> Iterator[Any]:
    for position in range(sequence.size()):
        yield sequence.apply(position)


def plan_nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in items(plan.children()):
        yield from plan_nodes(child)


def class_name(part: Any) -> str:
    return str(part.getClass().getSimpleName())


def with_part(spark: SparkSession, plan: Any, path: Sequence[int], part: Any) -> Any:
    """The plan with another part at a place; `path` are the numbers of children on the way."""
    if not path:
        return part
    children = list(items(plan.children()))
    children[path[0]] = with_part(spark, children[path[0]], path[1:], part)
    return plan.withNewChildren(sequence(spark, children))


def part_at(plan: Any, path: Sequence[int]) -> Any:
    for number in path:
        plan = plan.children().apply(number)
    return plan


def streaming_leaves(plan: Any) -> list[Any]:
    """The streams that a plan reads, each once, in the order in which Spark numbers them."""
    leaves = plan.collectLeaves()
    found: list[Any] = []
    for leaf in items(leaves):
        if leaf.isStreaming() and not any(leaf.equals(other) for other in found):
            found.append(leaf)
    return found


_IN_STREAMS_ONLY = "DeduplicateWithinWatermark"


def as_bounded(frame: DataFrame) -> DataFrame:
    """A batch drops every duplicate where a stream drops those within the watermark, which Spark
    refuses there: a stream may keep one that comes later than that."""
    plan, spark = analyzed(frame), frame.sparkSession
    if _IN_STREAMS_ONLY not in str(plan.toString()):
        return frame
    kind = java_class(spark, "org.apache.spark.sql.catalyst.plans.logical.Deduplicate")
    while (path := _path_to(plan, _IN_STREAMS_ONLY)) is not None:
        node = part_at(plan, path)
        plan = with_part(spark, plan, path, kind(node.keys(), node.child()))
    return frame_of(spark, plan)


def _path_to(plan: Any, name: str) -> tuple[int, ...] | None:
    if str(plan.nodeName()) == name:
        return ()
    for number, child in enumerate(items(plan.children())):
        path = _path_to(child, name)
        if path is not None:
            return (number, *path)
    return None
