"""Tables written to a real Kafka topic: every record once."""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import kafka
from headwater.connectors.interface import ReadRequest, WriteRequest
from headwater.connectors.kafka import create_topic
from headwater.definitions import OutputMode
from headwater.local.processes import wait_until
from headwater.settings import Connection, Settings
from headwater.testing import Harness, add, crash, process, restart


class Memo:
    """A note in memory."""

    def __init__(self) -> None:
        self.text: str | None = None

    def read(self) -> str | None:
        return self.text

    def write(self, text: str) -> None:
        self.text = text


@pytest.fixture
def topic(kafka_connection: Connection) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    create_topic(kafka_connection, name, partitions=2)
    return name


def in_topic(spark: SparkSession, connection: Connection, topic: str) -> Counter[str]:
    request = ReadRequest("topic", None, connection, Path())
    found = kafka(topic).read_batch(spark, request).select(F.col("value").cast("string"))
    return Counter(row[0] for row in found.collect())


def request_for(connection: Connection, memo: Memo, **choices: Any) -> WriteRequest:
    mode, key = choices.get("mode", OutputMode.APPEND), choices.get("key", ())
    return WriteRequest(
        "out", mode, key, connection, Path(), managed="", is_exactly_once=True, note=memo
    )


def numbers(spark: SparkSession, *found: int) -> DataFrame:
    frame = spark.createDataFrame([(n,) for n in found], "n int").repartition(2)
    return frame.select(F.col("n").cast("string").alias("value"))


def half_written(frame: DataFrame) -> DataFrame:
    """The same, where one task fails after another has written."""
    broken = F.raise_error(F.lit("the disk is gone")).cast("boolean")
    late = F.expr("java_method('java.lang.Thread', 'sleep', 3000L)").isNull()
    fails = F.when(F.spark_partition_id() == 1, F.when(late, broken).otherwise(broken))
    return frame.where(fails.otherwise(F.lit(True)))


def test_what_a_failed_attempt_wrote_is_not_written_again(
    spark: SparkSession, kafka_connection: Connection, topic: str
) -> None:
    request, sink = request_for(kafka_connection, Memo()), kafka(topic)
    frame = numbers(spark, 1, 2, 3, 3, 4, 5, 6, 7)
    sink.write_increment(frame.limit(0), request, query="q", batch=0)
    with pytest.raises(Exception, match="the disk is gone"):
        sink.write_increment(half_written(frame), request, query="q", batch=1)
    before = in_topic(spark, kafka_connection, topic)
    assert 0 < sum(before.values()) < 8
    for _ in range(2):
        sink.write_increment(frame, request, query="q", batch=1)
    expected = Counter({"1": 1, "2": 1, "3": 2, "4": 1, "5": 1, "6": 1, "7": 1})
    assert in_topic(spark, kafka_connection, topic) == expected
    # The same rows of another batch are other records.
    before_it = sink.position(spark, request, "q")
    sink.write_increment(frame, request, query="q", batch=2)
    assert sum(in_topic(spark, kafka_connection, topic).values()) == 16
    assert sink.position(spark, request, "q") != before_it


def test_a_broker_that_restarts_in_the_middle_of_a_write_has_every_record_once(
    spark: SparkSession,
    kafka_connection: Connection,
    kafka_folder: Path,
    restarted: Callable[[Path, str], None],
    topic: str,
    tmp_path: Path,
) -> None:
    begun, back = tmp_path / "begun", tmp_path / "back"

    def held_up(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch.slice(0, 1000)
            begun.touch()
            assert wait_until(back.exists, timeout_s=300)
            yield batch.slice(1000)

    def restart_broker() -> None:
        assert wait_until(begun.exists, timeout_s=300)
        restarted(kafka_folder, "kafka")
        back.touch()

    frame = spark.range(0, 4000, 1, 2).mapInArrow(held_up, "id bigint")
    records = frame.select(F.col("id").cast("string").alias("value"))
    request, restarting = request_for(kafka_connection, Memo()), Thread(target=restart_broker)

    def write() -> None:
        kafka(topic).write_increment(records, request, query="q", batch=0)

    restarting.start()
    # Where the restart takes longer than the producer waits, the batch fails and comes again.
    with contextlib.suppress(PySparkException, Py4JError):
        write()
    restarting.join()
    assert back.exists()
    for _ in range(2):
        write()
    expected = Counter(str(number) for number in range(4000))
    assert in_topic(spark, kafka_connection, topic) == expected


def test_without_the_note_they_would_be_written_twice(
    spark: SparkSession, kafka_connection: Connection, topic: str
) -> None:
    memo, sink = Memo(), kafka(topic)
    for _ in range(2):
        memo.text = None
        request = request_for(kafka_connection, memo)
        sink.write_increment(numbers(spark, 1), request, query="q", batch=0)
    assert in_topic(spark, kafka_connection, topic) == Counter({"1": 2})


def test_with_a_key_other_values_of_it_are_not_written_again(
    spark: SparkSession, kafka_connection: Connection, topic: str
) -> None:
    request = request_for(kafka_connection, Memo(), mode=OutputMode.UPDATE, key=("device",))
    for value in (0.1, 0.10000000000000001, 0.2):
        frame = spark.createDataFrame([("a", value)], "device string, celsius double")
        kafka(topic).write_increment(frame, request, query="q", batch=0)
    assert in_topic(spark, kafka_connection, topic) == Counter({'{"device":"a","celsius":0.1}': 1})


def test_several_records_of_one_key_are_told_apart_by_their_values(
    spark: SparkSession, kafka_connection: Connection, topic: str
) -> None:
    request = request_for(kafka_connection, Memo(), mode=OutputMode.UPDATE, key=("device",))
    rows = [("a", 1), ("a", 2), ("a", 2), ("b", 1)]
    frame = spark.createDataFrame(rows, "device string, minute int")
    written = frame.where("minute = 1")
    for part in (written, frame, frame):
        kafka(topic).write_increment(part, request, query="q", batch=0)
    expected = Counter(f'{{"device":"{device}","minute":{minute}}}' for device, minute in rows)
    assert in_topic(spark, kafka_connection, topic) == expected


FAILING = """
from pathlib import Path

from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json, kafka

app = Pipeline("failing")
app.source("rows", json("in"), schema="id long")
marker = Path("failed").resolve()


@F.udf("string")
def text(number):
    if number == 900 and not marker.exists():
        marker.touch()
        raise ValueError("the first attempt fails")
    return str(number)


app.table(name="out", into=kafka("{topic}"))(lambda rows: rows.select(text("id").alias("value")))
"""


def test_a_task_that_is_tried_again_writes_nothing_twice(
    spark: SparkSession,
    kafka_connection: Connection,
    topic: str,
    tmp_path: Path,
    start: Callable[..., Any],
) -> None:
    """With this master Spark tries a task four times; the first one has sent some records."""
    (tmp_path / "in").mkdir()
    lines = "".join(f'{{"id": {number}}}\n' for number in range(1000))
    (tmp_path / "in/rows.json").write_text(lines)
    (tmp_path / "app.py").write_text(FAILING.format(topic=topic))
    servers = kafka_connection.require("bootstrap_servers")
    (tmp_path / "headwater.toml").write_text(
        f'[profile.local.connections.kafka]\nbootstrap_servers = "{servers}"\n'
    )
    run = start("run", "--available-now", "--master", "local[2,4]", folder=tmp_path)
    assert run.end() == 0, run.output
    assert (tmp_path / "failed").exists()
    expected = Counter(str(number) for number in range(1000))
    assert in_topic(spark, kafka_connection, topic) == expected
    assert "tried again" not in run.output


def test_a_crash_between_the_sink_and_the_commit_changes_nothing(
    spark: SparkSession, kafka_connection: Connection, topic: str, tmp_path: Path
) -> None:
    connections = {"kafka": dict(kafka_connection.options)}
    app = Pipeline("topics", settings=Settings(tmp_path, connections=connections))
    app.source("words", kafka("words"), schema="word string")
    app.table(name="found", into=kafka(topic), key="word", mode="update", unbounded_state=True)(
        lambda words: words.groupBy("word").count()
    )
    Harness(app, keep=["found"]).run(
        add("words", [("a",), ("b",)]),
        process(),
        add("words", [("a",)]),
        process(),
        crash("after_sink"),
        restart(),
        process(),
        add("words", [("a",)]),
        process(),
    )
    assert in_topic(spark, kafka_connection, topic) == Counter(
        {
            '{"word":"a","count":1}': 1,
            '{"word":"b","count":1}': 1,
            '{"word":"a","count":2}': 1,
            '{"word":"a","count":3}': 1,
        }
    )


def test_records_without_headers_of_their_own_are_recognised_too(
    spark: SparkSession, kafka_connection: Connection, topic: str
) -> None:
    """Spark reads a record without headers as NULL."""
    kind = "array<struct<key: string, value: binary>>"
    mine = F.array(F.struct(F.lit("origin").alias("key"), F.lit(b"here").alias("value")))
    headers = F.when(F.col("value") == "1", mine).otherwise(F.lit(None).cast(kind))
    frame = numbers(spark, 1, 2).withColumn("headers", headers)
    request = request_for(kafka_connection, Memo())
    for _ in range(2):
        kafka(topic).write_increment(frame, request, query="q", batch=0)
    assert in_topic(spark, kafka_connection, topic) == Counter({"1": 1, "2": 1})
