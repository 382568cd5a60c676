"""The watermark of the batch that runs, as a column.

Spark has no expression for it: it is asked of the offset log whenever a batch is planned. A batch
that runs again finds the same line and the same watermark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.jvm.asking import asked_per_batch
from headwater.jvm.classes import EXPRESSIONS, TYPES, java_class, module

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


def batch_watermark(spark: SparkSession, read_ms: Callable[[], int]) -> Column:
    """A timestamp that is asked of `read_ms` whenever Spark plans a batch."""
    from pyspark.sql import functions as F

    return F.timestamp_millis(asked_per_batch(spark, read_ms))


def steady(spark: SparkSession, number: Column) -> Column:
    """A number that is constant within a batch, without being written into the code of the stage.

    Spark compiles a stage once for all batches as long as its code stays the same, and writes
    numbers into the code. A decimal it passes beside the code; taking the number out again must
    not divide, as `toLong` does, for every row.
    """
    from pyspark.sql import Column

    decimal = spark._jsparkSession.expression(number.cast("decimal(20,0)")._jc)
    invoke = java_class(spark, EXPRESSIONS + "objects.Invoke")
    none, long = module(spark, "scala.collection.immutable.Nil"), module(spark, TYPES + "LongType")
    taken = invoke(decimal, "toUnscaledLong", long, none, none, False, False, False)
    return Column(java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils").column(taken))


def moment(spark: SparkSession, milliseconds: Column) -> Column:
    """A moment that is constant within a batch, without being written into the code."""
    from pyspark.sql import functions as F

    return F.timestamp_micros(steady(spark, milliseconds.cast("long") * 1000))


def watermark_at(ms: int) -> Column:
    """The watermark of a batch that is over."""
    from pyspark.sql import functions as F

    return F.timestamp_millis(F.lit(ms))
