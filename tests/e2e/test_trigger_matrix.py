"""Our verdict on triggers over a real Kafka topic is what Spark does with the same query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Pipeline
from headwater.connectors import console, foreach, kafka, parquet
from headwater.connectors.interface import Connector
from headwater.connectors.kafka import create_topic
from headwater.definitions import Trigger, TriggerKind
from headwater.errors import HeadwaterError, ModeImpossible, NoModeFits, TriggerImpossible
from headwater.local.processes import wait_until
from headwater.settings import Connection, Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEADLINE_S = 300
IN, OUT = "matrix_in", "matrix_out"
MINIMUM = "spark.sql.streaming.realTimeMode.minBatchDuration"
TRIGGERS = {
    TriggerKind.CONTINUOUS: (Trigger.continuous("1 second"), {"continuous": "1 second"}),
    TriggerKind.REAL_TIME: (Trigger.real_time("1 second"), {"realTime": "1 second"}),
}


def text(signals: DataFrame) -> DataFrame:
    return signals.selectExpr("CAST(value AS STRING) AS value", "timestamp")


def by_python(signals: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return text(signals).select(F.udf(lambda value: value, "string")("value").alias("value"))


def with_lookup(signals: DataFrame) -> DataFrame:
    known = signals.sparkSession.createDataFrame([("a",)], "value string")
    return text(signals).select("value").join(known, "value", "left")


def in_windows(signals: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    timed = text(signals).withWatermark("timestamp", "1 second")
    counts = timed.groupBy(F.window("timestamp", "1 second")).count()
    return counts.select(F.col("count").cast("string").alias("value"))


KINDS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "stateless": lambda signals: text(signals).where("value <> ''").select("value"),
    "Python function": by_python,
    "lookup join": with_lookup,
    "watermark": lambda signals: (
        text(signals).withWatermark("timestamp", "1 second").select("value")
    ),
    "aggregation": lambda signals: text(signals).groupBy("value").count().select("value"),
    "repartition": lambda signals: text(signals).select("value").repartition(2),
    "now": lambda signals: text(signals).selectExpr("string(current_timestamp()) AS value"),
}
SINKS: dict[str, Connector] = {
    "kafka": kafka(OUT),
    "console": console(),
    "foreach": foreach(lambda row: None),
    "parquet": parquet("out"),
}


@pytest.fixture(scope="module")
def broker(kafka_connection: Connection, spark: SparkSession) -> Iterator[str]:
    for topic in (IN, OUT):
        create_topic(kafka_connection, topic)
    # A micro-batch query commits nothing while there is nothing to read.
    rows = spark.createDataFrame([("a",)], "value string").write.format("kafka")
    servers = kafka_connection.require("bootstrap_servers")
    rows.option("kafka.bootstrap.servers", servers).option("topic", IN).save()
    spark.conf.set(MINIMUM, "500")
    yield servers
    spark.conf.unset(MINIMUM)


# Every kind into Kafka and every sink with these kinds; the other cells have the mark `matrix`.
COVERING_KINDS = ("stateless", "aggregation")
CELLS = [
    pytest.param(
        trigger,
        sink,
        kind,
        id=f"{trigger.value}-{sink}-{kind}",
        marks=() if sink == "kafka" or kind in COVERING_KINDS else pytest.mark.matrix,
    )
    for trigger in TRIGGERS
    for sink in SINKS
    for kind in KINDS
]


@pytest.mark.parametrize(("trigger", "sink", "kind"), CELLS)
def test_a_trigger_is_possible_where_spark_runs_it(
    trigger: TriggerKind, sink: str, kind: str, broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    ours, theirs = TRIGGERS[trigger]
    problem = refused_by_us(KINDS[kind], SINKS[sink], ours, broker, tmp_path)
    mode = "update" if trigger is TriggerKind.REAL_TIME or kind == "aggregation" else "append"
    writer = spark_writer(KINDS[kind](stream(spark, broker)), sink, broker, tmp_path)
    refusal = refused_by_spark(writer.outputMode(mode).trigger(**theirs), tmp_path)
    assert (problem is None) == (refusal is None), (problem, refusal)


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
@pytest.mark.parametrize("kind", ["stateless", "aggregation", "counts in windows"])
def test_a_mode_of_a_topic_is_possible_where_spark_runs_it(
    kind: str, mode: str, broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    shape = KINDS.get(kind, in_windows)
    problem = refused_by_us(shape, SINKS["kafka"], Trigger.default(), broker, tmp_path, mode=mode)
    writer = spark_writer(shape(stream(spark, broker)), "kafka", broker, tmp_path)
    refusal = refused_by_spark(writer.outputMode(mode), tmp_path, last=0)
    assert (problem is None) == (refusal is None), (problem, refusal)


@pytest.mark.parametrize(
    ("theirs", "kind", "is_possible"),
    [
        ({"processingTime": "0 seconds"}, "stateless", True),
        ({"processingTime": "0 seconds"}, "aggregation", False),
        ({"availableNow": True}, "stateless", False),
        ({"once": True}, "stateless", False),
        ({"realTime": "1 second"}, "stateless", False),
    ],
    ids=["default", "state", "available now", "once", "real time"],
)
def test_spark_tracks_progress_asynchronously_only_there(
    theirs: dict[str, Any],
    kind: str,
    is_possible: bool,
    broker: str,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    writer = spark_writer(KINDS[kind](stream(spark, broker)), "kafka", broker, tmp_path)
    writer = writer.option("asyncProgressTrackingEnabled", "true").outputMode("update")
    assert (refused_by_spark(writer.trigger(**theirs), tmp_path, last=0) is None) is is_possible


def test_fewer_cores_than_partitions_are_refused(
    kafka_connection: Connection, broker: str, tmp_path: Path
) -> None:
    create_topic(kafka_connection, "matrix_wide", partitions=3)
    trigger = Trigger.continuous("1 second")
    wide = refused_by_us(
        KINDS["stateless"], SINKS["kafka"], trigger, broker, tmp_path, "matrix_wide"
    )
    assert "3 input partitions need as many cores, and there are 2" in str(wide)


def refused_by_us(
    shape: Callable[[DataFrame], DataFrame],
    sink: Connector,
    trigger: Trigger,
    broker: str,
    folder: Path,
    topic: str = IN,
    mode: str | None = None,
) -> HeadwaterError | None:
    connections = {"kafka": {"bootstrap_servers": broker}}
    settings = Settings(folder=folder, master="local[2]", connections=connections)
    app = Pipeline("app", settings=settings)
    app.source("signals", kafka(topic))
    app.table(
        name="t",
        into=sink,
        mode=mode,
        trigger=trigger,
        reads={"signals": "signals"},
        unbounded_state=True,
    )(lambda signals: shape(signals))
    try:
        app.plan()
    except (TriggerImpossible, NoModeFits, ModeImpossible) as problem:
        return problem
    return None


def stream(spark: SparkSession, broker: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
    return reader.option("subscribe", IN).option("startingOffsets", "earliest").load()


def spark_writer(frame: DataFrame, sink: str, broker: str, at: Path) -> Any:
    writer = frame.writeStream
    if sink == "foreach":
        return writer.foreach(lambda row: None)
    options = {"kafka.bootstrap.servers": broker, "topic": OUT} if sink == "kafka" else {}
    return writer.format(sink).options(**options, path=str(at / "out"))


def refused_by_spark(writer: Any, at: Path, *, last: int = 1) -> str | None:
    """What Spark says until batch or epoch `last` is committed; None where it gets there.

    Under the continuous trigger a Python foreach writer fails in its second epoch.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    commit = at / "checkpoint" / "commits" / str(last)
    query: Any = None
    try:
        query = writer.option("checkpointLocation", str(at / "checkpoint")).start()
        has_answered = wait_until(
            lambda: commit.exists() or not query.isActive, timeout_s=DEADLINE_S
        )
        assert has_answered, "neither a commit nor a refusal"
        failure = query.exception()
        return None if failure is None else str(failure)
    except (PySparkException, Py4JJavaError) as refusal:
        return str(refusal)
    finally:
        if query is not None:
            query.stop()
