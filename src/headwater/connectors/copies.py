"""Rows as lines of PostgreSQL's COPY, made and sent by the JVM.

A value is written so that it means the same whatever the zones of Spark, the driver and the server
are; PostgreSQL reads it by the type of its column, so a text goes into a uuid, JSON or an
enumeration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.jvm.classes import EXPRESSIONS, java_class, kept, module
from headwater.jvm.jar import COPY
from headwater.ledger.databases import Database
from headwater.schemas import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
"""The backslash first, or those of the others would be doubled."""


def copy_rows(rows: DataFrame, database: Database, statement: str) -> None:
    """Runs a `COPY … FROM STDIN` in every task that has rows."""
    copy = java_class(database.spark, COPY)
    copy.load(copy_lines(rows)._jdf, statement, database.java_options())


def copy_lines(rows: DataFrame) -> DataFrame:
    """The rows as the bytes of a line each."""
    schema = rows.schema
    line = kept(rows.sparkSession, ("line", schema.json()), lambda: _line(schema))
    return rows.select(line)


def _line(schema: StructType) -> Column:
    from pyspark.sql import functions as F

    parts: list[Column] = []
    for column in schema:
        text = _text(F.col(quoted(column.name)), column.dataType)
        parts += [F.coalesce(text, F.lit("\\N")), F.lit("\t")]
    line = F.concat(*parts[:-1], F.lit("\n"))
    return line.cast("binary").alias("line")


def _text(value: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.BinaryType):
        return F.concat(F.lit("\\\\x"), F.hex(value))
    if isinstance(kind, T.FloatType):
        # Its own value, also where the column is wider.
        return value.cast("double").cast("string")
    if isinstance(kind, T.DateType):
        return _year(value.cast("string"))
    if isinstance(kind, T.TimestampType):
        return F.concat(_year(_in_utc(value)), F.lit("+00"))
    if isinstance(kind, T.TimestampNTZType):
        return F.concat(_year(value.cast("string")), F.lit("+00"))
    text = value.cast("string")
    if isinstance(kind, T.NumericType | T.BooleanType):
        return text
    for plain, escaped in _ESCAPES.items():
        text = F.replace(text, F.lit(plain), F.lit(escaped))
    return text


def _year(text: Column) -> Column:
    """Spark writes years of five digits with a sign, which PostgreSQL does not read."""
    from pyspark.sql import functions as F

    return F.ltrim(text, F.lit("+"))


def _in_utc(moment: Column) -> Column:
    """A moment as text in UTC; SQL's own cast would take the zone of the session."""
    from pyspark.sql import Column, SparkSession

    spark = SparkSession.active()
    zone = java_class(spark, "scala.Some")("UTC")
    text = module(spark, "org.apache.spark.sql.types.StringType")
    mode = module(spark, EXPRESSIONS + "EvalMode").LEGACY()
    value = spark._jsparkSession.expression(moment._jc)
    cast = java_class(spark, EXPRESSIONS + "Cast")(value, text, zone, mode)
    columns = java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils")
    return Column(columns.column(cast))
