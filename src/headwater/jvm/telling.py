"""Rows that a query tells its driver about on the way, at no cost for the others.

Spark's accumulators can be added to from inside an expression. `Ear.told(…)` is such an expression:
it stands in a filter's condition behind the question which rows are meant, so nothing is done for
any other row and Spark compiles it with the rest of the stage. What was told comes with the tasks'
results; a task that ran twice tells the same rows under the same numbers, which count once.
"""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.jvm.classes import EXPRESSIONS, TYPES, java_class, kept, module
from headwater.jvm.jar import AGES, HANDED, LAGS, TOLD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

TOLD_BYTES = 2 << 20
"""So much of one batch is told by each task; of more, the batch is read again."""
_TOLD_BYTES_IN_ALL = 128 << 20
"""So much by all tasks of a batch together."""
_PER_TASK = 1 << 33
JSON_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, slots=True)
class ToldRows:
    """What was told of a batch: the rows as JSON, with a weight each; incomplete where a task had
    more to tell than it may."""

    rows: tuple[tuple[str, int], ...] = ()
    is_complete: bool = True

    @property
    def weight(self) -> int:
        return sum(weight for _, weight in self.rows)


class Counter:
    """Counts rows from inside a query."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        context: Any = spark.sparkContext._jsc
        self.java = context.sc().longAccumulator()
        self._read = 0

    def counted(self, amount: Column) -> Column:
        """False; adds to the count wherever it is evaluated."""
        return _told(self._spark, self.java, amount.cast("long"))

    def in_task(self) -> Column:
        """How often the task that evaluates it has counted so far."""
        return _asked(self._spark, self.java, "count", "LongType")

    def since_last(self) -> int:
        """What was counted since this was last asked."""
        now = int(self.java.sum())
        before, self._read = self._read, now
        return now - before


class _Drawn:
    """Numbers of rows that are added up by a class of ours in the JVM."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        context: Any = spark.sparkContext._jsc
        self._java = java_class(spark, name)()
        context.sc().register(self._java)

    def drawn(self, number: Column) -> Column:
        """False; adds a number, which is not NULL, wherever it is evaluated."""
        return _told(self._spark, self._java, number.cast("long"))


class Lags(_Drawn):
    """How far rows are behind in milliseconds, sketched from inside a query."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark, LAGS)

    def sketch(self) -> bytes:
        """All lags so far, as a `KllLongsSketch`."""
        return bytes(self._java.value())


class Ages(_Drawn):
    """How old rows are in milliseconds, counted from inside a query."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark, AGES)

    def since_last(self) -> list[tuple[int, int]]:
        """Up to which age, and how many rows, since this was last asked; the youngest first."""
        return [(end_ms, rows) for end_ms, rows in json.loads(self._java.take())]


class Handed(_Drawn):
    """How many rows a query hands to its sink, batch by batch."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark, HANDED)

    def counting(self, frame: DataFrame) -> DataFrame:
        """The same rows, counted."""
        from pyspark.sql import functions as F

        # The partition's number keeps Spark from moving the filter into an earlier operator.
        return frame.where(~self.drawn(F.spark_partition_id()))

    def rows(self, batch: int) -> int:
        """Those of a batch that has ended; it is forgotten here."""
        return int(self._java.take(batch))


class Ear:
    """Hears rows of one place of a query, batch by batch."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        context: Any = spark.sparkContext._jsc
        self._java = java_class(spark, TOLD)(TOLD_BYTES, _TOLD_BYTES_IN_ALL)
        context.sc().register(self._java)
        self.counter = Counter(spark)
        self._heard: dict[int, dict[int, tuple[str | None, int]]] = {}
        self._lock = threading.Lock()

    def told(self, batch: Column, row: Column, weight: Column) -> Column:
        """False; tells a row wherever it is evaluated."""
        from pyspark.sql import functions as F

        number = F.spark_partition_id().cast("long") * F.lit(_PER_TASK) + self.counter.in_task()
        about = F.struct(
            batch.alias("b"),
            number.alias("i"),
            weight.cast("long").alias("w"),
            F.to_json(row, JSON_OPTIONS).alias("r"),
        )
        has_room = _asked(self._spark, self._java, "hasRoom", "BooleanType")
        text = F.when(has_room, F.to_json(about)).otherwise(_note(batch, F.lit(-1)))
        return self.counter.counted(F.lit(1)) | self._add(text)

    def noted(self, batch: Column) -> Column:
        """False; counts where it is evaluated, and tells once per task that there was something."""
        from pyspark.sql import functions as F

        is_first = self.counter.in_task() == 1
        note = self._add(_note(batch, F.spark_partition_id()))
        return self.counter.counted(F.lit(1)) | F.when(is_first, note).otherwise(F.lit(False))

    def heard(self, batch: int) -> ToldRows:
        """What was told of a batch; it is forgotten here."""
        with self._lock:
            for entry in json.loads(self._java.take()):
                rows = self._heard.setdefault(int(entry["b"]), {})
                rows[int(entry["i"])] = (entry.get("r"), int(entry.get("w", 0)))
            rows = self._heard.pop(batch, {})
            for old in [number for number in self._heard if number < batch]:
                del self._heard[old]
        told = [(text, weight) for number, (text, weight) in rows.items() if number >= 0]
        is_complete = -1 not in rows and all(text is not None for text, _ in told)
        return ToldRows(tuple((text or "", weight) for text, weight in told), is_complete)

    def _add(self, text: Column) -> Column:
        return _told(self._spark, self._java, text)


class Attempts:
    """Which attempts of its tasks a job was made of.

    A task may run twice and leave the rows of both attempts in a system outside. Spark takes the
    result of one of them, and what that one told.
    """

    def __init__(self, spark: SparkSession, column: str) -> None:
        from pyspark.sql import functions as F

        context: Any = spark.sparkContext._jsc
        self._java = context.sc().collectionAccumulator()
        self._column = column
        # The partition's number keeps Spark from moving the label into an earlier stage.
        self._attempt = F.format_string(
            f"{uuid.uuid4().hex[:12]}-%d-%d", F.spark_partition_id(), _task_attempt(spark)
        )
        counter = Counter(spark)
        told = _told(spark, self._java, F.col(column))
        is_first_told = F.when(counter.in_task() == 1, told).otherwise(False)
        self._is_handed_over = ~(counter.counted(F.lit(1)) | is_first_told)

    @classmethod
    @contextlib.contextmanager
    def of_a_job(cls, spark: SparkSession, column: str) -> Iterator[Attempts]:
        """For one job, whose rows have their attempt in this column. They are made for as many
        jobs as run at once, and not for every batch; after a failure its tasks may still tell."""
        idle = kept(spark, ("attempts", column), lambda: list[Attempts]())
        attempts = idle.pop() if idle else cls(spark, column)
        attempts._java.reset()
        yield attempts
        idle.append(attempts)

    def labelled(self, frame: DataFrame) -> DataFrame:
        """The rows with the attempt that hands them over, whose number is unique in an
        application of Spark."""
        return frame.withColumn(self._column, self._attempt).where(self._is_handed_over)

    def successful(self) -> list[str]:
        """The attempts that count, once the job has ended; those without rows say nothing."""
        told = str(self._java.value().toString()).strip("[]")
        return told.split(", ") if told else []


def _task_attempt(spark: SparkSession) -> Column:
    """The number of the attempt that evaluates it, unique in the application."""
    return _invoked(spark, _task_context(spark), "taskAttemptId", "LongType")


def _task_context(spark: SparkSession) -> Any:
    context = java_class(spark, "java.lang.Class").forName("org.apache.spark.TaskContext")
    static = java_class(spark, EXPRESSIONS + "objects.StaticInvoke")
    none = module(spark, "scala.collection.immutable.Nil")
    kind = java_class(spark, TYPES + "ObjectType")(context)
    options = module(spark, "scala.None")
    return static(context, kind, "get", none, none, False, True, True, options)


def _note(batch: Column, number: Column) -> Column:
    """An entry without a row."""
    from pyspark.sql import functions as F

    return F.format_string('{"b":%d,"i":%d}', batch, number)


def rows_of(spark: SparkSession, told: ToldRows, schema: StructType) -> DataFrame:
    """Told rows as a DataFrame again."""
    import pyarrow as pa
    from pyspark.sql import functions as F

    column = pa.array([text for text, _ in told.rows], pa.string())
    texts = spark.createDataFrame(pa.table({"r": column}))
    parsed = F.from_json("r", schema, JSON_OPTIONS)
    return texts.select(parsed.alias("r")).select("r.*")


def can_be_told(schema: StructType) -> bool:
    """Whether JSON gives the rows back as they were."""
    return all(_is_plain(field.dataType) for field in schema)


def _is_plain(kind: DataType) -> bool:
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        return all(_is_plain(field.dataType) for field in kind)
    if isinstance(kind, T.ArrayType):
        return _is_plain(kind.elementType)
    if isinstance(kind, T.MapType):
        return isinstance(kind.keyType, T.StringType) and _is_plain(kind.valueType)
    plain = (
        T.StringType,
        T.BinaryType,
        T.BooleanType,
        T.NumericType,
        T.DateType,
        T.TimestampType,
        T.TimestampNTZType,
    )
    return isinstance(kind, plain)


def _told(spark: SparkSession, accumulator: Any, value: Column) -> Column:
    """False, once the value was added: an accumulator that was added to is not zero."""
    given = java_class(spark, "java.util.HashMap")()
    given.put("add", spark._jsparkSession.expression(value._jc))
    convert = java_class(spark, "scala.jdk.javaapi.CollectionConverters")
    maps = module(spark, "scala.collection.immutable.Map")
    setters = getattr(maps, "from")(convert.asScala(given))
    bean = java_class(spark, EXPRESSIONS + "objects.InitializeJavaBean")
    return _invoked(spark, bean(_literal(spark, accumulator), setters), "isZero", "BooleanType")


def _asked(spark: SparkSession, accumulator: Any, method: str, kind: str) -> Column:
    return _invoked(spark, _literal(spark, accumulator), method, kind)


def _literal(spark: SparkSession, value: Any) -> Any:
    kind = java_class(spark, TYPES + "ObjectType")(value.getClass())
    return java_class(spark, EXPRESSIONS + "Literal")(value, kind)


def _invoked(spark: SparkSession, target: Any, method: str, kind: str) -> Column:
    from pyspark.sql import Column

    invoke = java_class(spark, EXPRESSIONS + "objects.Invoke")
    none = module(spark, "scala.collection.immutable.Nil")
    result = module(spark, TYPES + kind)
    invoked = invoke(target, method, result, none, none, False, False, False)
    columns = java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils")
    return Column(columns.column(invoked))
