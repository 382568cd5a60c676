"""A plan that a query takes anew for every batch: what a model makes of one row.

What a query does is fixed when it starts. But Spark plans every batch anew and folds what is
constant: an expression that asks an object in the driver becomes a literal of that batch. Here it
is the handle of a broadcast, so an executor fetches each version of a model once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.jvm.asking import Asked
from headwater.jvm.classes import EXPRESSIONS, TYPES, java_class, module, sequence
from headwater.jvm.jar import SCORER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


class NotByRow(Exception):
    """A plan that does something else than projections and filters; says what."""


def scorer_of(frame: DataFrame, name: str) -> Any:
    """What the plan of a frame does to a row of the only data that it reads."""
    from pyspark.errors import IllegalArgumentException

    plan = frame._jdf.queryExecution().optimizedPlan()
    try:
        return java_class(frame.sparkSession, SCORER).of(plan, name)
    except IllegalArgumentException as refused:
        raise NotByRow(str(refused).splitlines()[0]) from None


def no_scorer(spark: SparkSession, width: int) -> Any:
    """Nulls for every row."""
    return java_class(spark, SCORER).ofNothing(width)


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame of which the optimizer does not know that it is empty."""
    from pyspark.sql import DataFrame

    kind = spark._jsparkSession.parseDataType(schema.json())
    empty = spark.sparkContext._jsc.emptyRDD()
    return DataFrame(spark._jsparkSession.createDataFrame(empty, kind), spark)


def sent(spark: SparkSession, scorer: Any) -> Any:
    """A scorer for every executor, as long as the result is kept."""
    return scorer.send(spark.sparkContext._jsc)


def scored(spark: SparkSession, row: Column, scorer: Any, adds: StructType) -> Column:
    """What a scorer makes of a row: none or one, in an array."""
    own = java_class(spark, TYPES + "ObjectType")(scorer.getClass())
    literal = java_class(spark, EXPRESSIONS + "Literal")(scorer, own)
    return _column(spark, _invoked(spark, literal, "score", _rows(spark, adds), row))


def scored_per_batch(
    spark: SparkSession, row: Column, handle: Callable[[], bytes], adds: StructType
) -> Column:
    """The same by the scorer that `handle` says whenever Spark plans a batch."""
    classes = java_class(spark, "java.lang.Class")
    supplier = classes.forName("java.util.function.Supplier")
    kind = java_class(spark, TYPES + "ObjectType")(supplier)
    asked = java_class(spark, EXPRESSIONS + "Literal")(Asked(handle), kind)
    handle_of_batch = _invoked(spark, asked, "get", module(spark, TYPES + "BinaryType"))
    static = java_class(spark, EXPRESSIONS + "objects.StaticInvoke")
    given = sequence(spark, [handle_of_batch, _expression(spark, row)])
    none, options = module(spark, "scala.collection.immutable.Nil"), module(spark, "scala.None")
    rows = _rows(spark, adds)
    own = no_scorer(spark, 0).getClass()
    return _column(spark, static(own, rows, "score", given, none, False, False, True, options))


def _rows(spark: SparkSession, columns: StructType) -> Any:
    struct = spark._jsparkSession.parseDataType(columns.json())
    return java_class(spark, TYPES + "ArrayType")(struct, False)


def _invoked(spark: SparkSession, target: Any, method: str, kind: Any, *given: Column) -> Any:
    invoke = java_class(spark, EXPRESSIONS + "objects.Invoke")
    arguments = sequence(spark, [_expression(spark, column) for column in given])
    none = module(spark, "scala.collection.immutable.Nil")
    return invoke(target, method, kind, arguments, none, False, False, True)


def _expression(spark: SparkSession, column: Column) -> Any:
    return spark._jsparkSession.expression(column._jc)


def _column(spark: SparkSession, expression: Any) -> Column:
    from pyspark.sql import Column

    return Column(
        java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils").column(expression)
    )
