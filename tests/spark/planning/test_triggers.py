"""Our verdict on trigger x source x sink x kind of query is what Spark does when it is started.

Sources and sinks of Kafka are in tests/e2e/test_trigger_matrix.py.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import socket as socket_module
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.connectors import console, delta, foreach_batch, memory, parquet, rate, socket
from headwater.connectors.interface import Connector, ReadRequest, WriteRequest
from headwater.definitions import OutputMode, Source, Trigger, TriggerKind
from headwater.local.processes import wait_until
from headwater.planning.analysis import facts_of, real_time_problems
from headwater.planning.inputs import StreamInput
from headwater.planning.triggers import (
    TriggerQuestion,
    async_progress_problem,
    interval_problem,
    verdict,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEADLINE_S = 300
SCHEMA = "timestamp timestamp, value long"
TRIGGERS = {
    TriggerKind.DEFAULT: Trigger.default(),
    TriggerKind.PROCESSING_TIME: Trigger.processing_time("1 second"),
    TriggerKind.ONCE: Trigger.once(),
    TriggerKind.AVAILABLE_NOW: Trigger.available_now(),
    TriggerKind.CONTINUOUS: Trigger.continuous("1 second"),
    TriggerKind.REAL_TIME: Trigger.real_time("5 seconds"),
}
SOURCES: dict[str, Connector] = {
    "rate": rate(10),
    "rate per batch": rate(rows_per_batch=2),
}
SINKS = {
    "memory": memory(),
    "console": console(),
    "parquet": parquet("out"),
    "foreach_batch": foreach_batch(lambda frame, batch: None),
    "delta": delta("out"),
}
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def python_function(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.select(F.udf(lambda value: value, "long")("value").alias("value"))


KINDS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "stateless": lambda frame: frame.where("value > 0").select("value"),
    "Python function": python_function,
    "aggregation": lambda frame: frame.groupBy("value").count(),
    "union": lambda frame: frame.union(frame),
}


def test_operators_of_sql_text_are_seen_too(spark: SparkSession) -> None:
    frame = SOURCES["rate"].read_stream(spark, ReadRequest("s", None, None, Path(".")))
    frame.createOrReplaceTempView("ticks_of_test")
    text = "SELECT /*+ REPARTITION(2) */ value FROM ticks_of_test"
    assert real_time_problems(spark.sql(text)) == ["rows change partitions (a shuffle)"]


# Every kind of query from one source into every sink that a fast trigger takes; of the others,
# which Spark refuses whatever the query, one kind. The rest has the mark `matrix`.
CELLS = [
    pytest.param(
        source,
        sink,
        kind,
        trigger,
        id=f"{source}-{sink}-{kind}-{trigger.value}",
        marks=()
        if kind == "stateless" or (source == "rate" and sink in ("memory", "console"))
        else pytest.mark.matrix,
    )
    for source in SOURCES
    for sink in SINKS
    for kind in KINDS
    for trigger in (TriggerKind.CONTINUOUS, TriggerKind.REAL_TIME)
]


@pytest.mark.parametrize(("source", "sink", "kind", "trigger"), CELLS)
def test_a_trigger_is_possible_where_spark_runs_it(
    source: str, sink: str, kind: str, trigger: TriggerKind, spark: SparkSession, tmp_path: Path
) -> None:
    question = asked(spark, SOURCES[source], SINKS[sink], KINDS[kind], trigger)
    found = verdict(question, trigger)
    refusal = refused_by_spark(question, trigger, tmp_path)
    assert found.is_possible == (refusal is None), (found, refusal)


@pytest.fixture(scope="module")
def other_sources(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Connector]]:
    folder = tmp_path_factory.mktemp("sources")
    rows = spark.range(3).selectExpr("timestamp_seconds(id) AS timestamp", "id AS value")
    rows.write.parquet(str(folder / "files"))
    rows.write.format("delta").save(str(folder / "table"))
    with socket_module.create_server(("127.0.0.1", 0)) as server:
        is_over = threading.Event()
        server.settimeout(0.2)
        thread = threading.Thread(target=_say_numbers, args=(server, is_over), daemon=True)
        thread.start()
        yield {
            "files": parquet(str(folder / "files")),
            "delta": delta(str(folder / "table")),
            "memory": memory(rows=[(NOON, 1), (NOON, 2)]),
            "socket": socket("127.0.0.1", server.getsockname()[1]),
        }
        is_over.set()
        thread.join()


def _say_numbers(server: socket_module.socket, is_over: threading.Event) -> None:
    """Sends lines to whoever connects, until the end."""
    connections: list[socket_module.socket] = []
    while not is_over.is_set():
        with contextlib.suppress(TimeoutError):
            connections.append(server.accept()[0])
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(b"1\n2\n")
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("trigger", [TriggerKind.CONTINUOUS, TriggerKind.REAL_TIME])
@pytest.mark.parametrize("source", ["files", "delta", "memory", "socket"])
def test_a_source_is_possible_where_spark_runs_it(
    source: str,
    trigger: TriggerKind,
    other_sources: dict[str, Connector],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    shape = KINDS["stateless"]
    question = asked(spark, other_sources[source], SINKS["console"], shape, trigger)
    refusal = refused_by_spark(question, trigger, tmp_path)
    found = verdict(question, trigger)
    assert found.is_possible == (refusal is None), (found, refusal)


@pytest.mark.parametrize("kind", ["union", "aggregation"])
@pytest.mark.parametrize("trigger", list(TRIGGERS)[:4])
def test_micro_batch_triggers_take_every_query(
    trigger: TriggerKind, kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    question = asked(spark, SOURCES["rate per batch"], SINKS["console"], KINDS[kind], trigger)
    assert verdict(question, trigger).is_possible
    assert refused_by_spark(question, trigger, tmp_path) is None


@pytest.mark.parametrize("sink", ["parquet", "foreach_batch"])
def test_asynchronous_progress_is_refused_where_spark_refuses_it(
    sink: str, spark: SparkSession, tmp_path: Path
) -> None:
    trigger = TriggerKind.DEFAULT
    question = asked(spark, SOURCES["rate"], SINKS[sink], KINDS["stateless"], trigger)
    assert async_progress_problem(TRIGGERS[trigger], SINKS[sink], question.facts)
    refusal = refused_by_spark(question, trigger, tmp_path, asyncProgressTrackingEnabled="true")
    assert "async progress" in str(refusal)


def test_a_real_time_batch_lasts_what_spark_asks_for(spark: SparkSession) -> None:
    question = asked(
        spark, SOURCES["rate"], SINKS["console"], KINDS["stateless"], TriggerKind.REAL_TIME
    )
    assert interval_problem(Trigger.real_time("5 seconds"), question.frame) is None
    assert "5000 ms" in str(interval_problem(Trigger.real_time("1 second"), question.frame))


@pytest.mark.parametrize(("partitions", "is_possible"), [(2, True), (3, False), (None, True)])
def test_continuous_needs_a_core_per_partition(
    partitions: int | None, is_possible: bool, spark: SparkSession
) -> None:
    kind = TriggerKind.CONTINUOUS
    question = asked(
        spark, SOURCES["rate"], SINKS["memory"], KINDS["stateless"], kind, partitions=partitions
    )
    found = verdict(question, kind)
    assert found.is_possible is is_possible
    assert "core" in "".join(found.problems) + str(found.note)


def asked(
    spark: SparkSession,
    source: Connector,
    sink: Connector,
    shape: Callable[[DataFrame], DataFrame],
    trigger: TriggerKind,
    *,
    partitions: int | None = None,
) -> TriggerQuestion:
    def build(trigger: Trigger) -> DataFrame:
        request = ReadRequest("s", SCHEMA, None, Path("."), trigger=trigger.kind)
        return shape(source.read_stream(spark, request))

    frame = build(TRIGGERS[trigger])
    facts = facts_of(frame)
    is_updated = trigger is TriggerKind.REAL_TIME or facts.is_aggregation
    return TriggerQuestion(
        frame=frame,
        facts=facts,
        inputs=[StreamInput("s", source, Source("s", source))],
        sink=sink,
        mode=OutputMode.UPDATE if is_updated else OutputMode.APPEND,
        modes_of_sink=sink.modes(has_key=False),
        is_mode_asked=False,
        cores=2,
        build=build,
        partitions=lambda: partitions,
    )


def refused_by_spark(
    question: TriggerQuestion, kind: TriggerKind, at: Path, **options: str
) -> str | None:
    """What Spark says until the query has made progress; None where it does."""
    from pyspark.errors import PySparkException

    request = WriteRequest(
        f"q_{abs(hash(at))}", question.mode, (), None, at, str(at / "managed"), trigger=kind
    )
    writer = question.sink.write_stream(question.build(TRIGGERS[kind]), request)
    writer = writer.outputMode(question.mode.value).options(**options)
    writer = writer.option("checkpointLocation", str(at / "checkpoint"))
    query: Any = None
    try:
        query = writer.trigger(**spark_trigger(kind)).start()
        # A continuous query reports no progress; its commit log shows that epochs end.
        commits = at / "checkpoint" / "commits"
        has_answered = wait_until(
            lambda: any(commits.glob("[0-9]*")) or not query.isActive, timeout_s=DEADLINE_S
        )
        assert has_answered, "neither progress nor a refusal"
        failure = query.exception()
        return None if failure is None else str(failure)
    except PySparkException as refusal:
        return str(refusal)
    except Exception as refusal:
        if type(refusal).__name__ != "Py4JJavaError":
            raise
        return str(refusal)
    finally:
        if query is not None:
            query.stop()


def spark_trigger(kind: TriggerKind) -> dict[str, Any]:
    return {
        TriggerKind.DEFAULT: {"processingTime": "0 seconds"},
        TriggerKind.PROCESSING_TIME: {"processingTime": "1 second"},
        TriggerKind.ONCE: {"once": True},
        TriggerKind.AVAILABLE_NOW: {"availableNow": True},
        TriggerKind.CONTINUOUS: {"continuous": "1 second"},
        TriggerKind.REAL_TIME: {"realTime": "5 seconds"},
    }[kind]
