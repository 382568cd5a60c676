"""A clock that stands still until somebody moves it, and queries that live by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.jvm.classes import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class ManualClock:
    """Spark's own manual clock. A query's triggers and `current_timestamp` follow it."""

    def __init__(self, spark: SparkSession, now_ms: int) -> None:
        self.java = java_class(spark, "org.apache.spark.util.ManualClock")(now_ms)

    @property
    def now_ms(self) -> int:
        return int(self.java.getTimeMillis())

    def set(self, now_ms: int) -> None:
        self.java.setTime(now_ms)


def start_on(
    writer: DataStreamWriter, clock: ManualClock | None, *, sink: Any | None = None
) -> StreamingQuery:
    """As `writer.start()`, by another clock (None: the machine's), into a sink of Spark's own kind
    where one is given.

    Spark's writer has no place for these; its manager of queries has. A sink that Spark can build
    only inside `start` (Kafka, console) runs by the machine's clock.
    """
    from pyspark.sql.streaming.query import StreamingQuery

    java: Any = writer._jwrite
    spark = writer._spark
    options = _field(java, "extraOptions")
    sink = sink or _sink(spark, java, options)
    if sink is None:
        return writer.start()
    java_clock = clock.java if clock else java_class(spark, "org.apache.spark.util.SystemClock")()
    none = java_class(spark, "scala.Option").empty()
    frame = _field(java, "ds")
    query = (
        frame.sparkSession()
        .streams()
        .startQuery(
            options.get("queryName"),
            none,
            options.get("checkpointLocation"),
            frame,
            options.originalMap(),
            sink,
            _field(java, "outputMode"),
            False,
            True,
            _field(java, "trigger"),
            java_clock,
            none,
            none,
        )
    )
    return StreamingQuery(query)


def _sink(spark: SparkSession, java: Any, options: Any) -> Any | None:
    source = _field(java, "source")
    if source == "foreachBatch":
        sinks = "org.apache.spark.sql.execution.streaming.sources"
        function, encoder = _field(java, "foreachBatchWriter"), _field(java, "ds").exprEnc()
        return java_class(spark, f"{sinks}.ForeachBatchSink")(function, encoder)
    if source in _LOADED_BY_START:
        return None
    create = _method(java, "createV1Sink")
    arguments = java_class(spark, "java.util.ArrayList")()
    arguments.add(options)
    return create.invoke(java, arguments.toArray())


_LOADED_BY_START = ("kafka", "console", "memory", "noop", "foreach")


def _field(java: Any, name: str) -> Any:
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)


def _method(java: Any, name: str) -> Any:
    found = next(m for m in java.getClass().getDeclaredMethods() if m.getName() == name)
    found.setAccessible(True)
    return found
