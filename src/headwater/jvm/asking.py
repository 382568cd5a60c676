"""What is asked anew for every batch: numbers, and the rows of a version.

What a query does is fixed when it starts. But Spark plans every batch anew, after it has written
the batch's line of the offset log, and folds what is constant: an expression that asks an object in
the driver becomes a literal of that batch. Executors never see the object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from headwater.jvm.classes import EXPRESSIONS, TYPES, java_class, module
from headwater.jvm.jar import VERSIONS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Answer = TypeVar("Answer")

_RELATION = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"


def asked_per_batch(spark: SparkSession, read: Callable[[], int]) -> Column:
    """A number that is asked of `read` whenever Spark plans a batch, and constant within it."""
    from pyspark.sql import Column

    supplier = java_class(spark, "java.lang.Class").forName("java.util.function.LongSupplier")
    kind = java_class(spark, TYPES + "ObjectType")(supplier)
    asked = java_class(spark, EXPRESSIONS + "Literal")(Asked(read), kind)
    invoke = java_class(spark, EXPRESSIONS + "objects.Invoke")
    none, long = module(spark, "scala.collection.immutable.Nil"), module(spark, TYPES + "LongType")
    invoked = invoke(asked, "getAsLong", long, none, none, False, False, True)
    return Column(java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils").column(invoked))


def rows_per_batch(
    spark: SparkSession, place: str, column: str, version: Callable[[], int]
) -> DataFrame:
    """Rows of the Delta table at `place` whose `column` is what `version` says for a batch.

    What was stored of a version must stay as it is.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    session = spark._jsparkSession
    versions = java_class(spark, VERSIONS)(session, place, column, Asked(version))
    relation = java_class(spark, _RELATION)
    none = module(spark, "scala.None")
    datasets = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    files = DataFrame(datasets.ofRows(session, relation.create(versions, none, none)), spark)
    # Delta names files that may have such rows.
    return files.where(F.col(column) == asked_per_batch(spark, version))


class Asked(Generic[Answer]):
    """Called by Spark."""

    def __init__(self, read: Callable[[], Answer]) -> None:
        from pyspark import SparkContext
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]  # PySpark has no type for it
        self._read = read

    def get(self) -> Answer:
        return self._read()

    def getAsLong(self) -> Answer:  # noqa: N802 - Java's names
        return self._read()

    def toString(self) -> str:  # noqa: N802
        return "of this batch"

    def hashCode(self) -> int:  # noqa: N802
        return id(self) & 0x7FFFFFFF

    def equals(self, other: object) -> bool:
        return other is self

    class Java:
        implements = ["java.util.function.LongSupplier", "java.util.function.Supplier"]
