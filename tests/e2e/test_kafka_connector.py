"""Kafka topics on a real broker: both sides, every trigger, rejected records by offset."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from headwater import Pipeline, Trigger
from headwater.connectors import kafka
from headwater.connectors.interface import REJECTED, OffsetRange, ReadRequest, WriteRequest
from headwater.connectors.kafka import create_topic, end_offsets, partition_count
from headwater.definitions import Limit, OutputMode, TriggerKind
from headwater.errors import InvalidConnector, NotReadable, NotReplaceable, TopicMissing
from headwater.local.processes import wait_until
from headwater.settings import Connection, Settings

SCHEMA = "device string NOT NULL, at timestamp, celsius double"
GOOD = {"device": "a", "at": "2026-01-01T12:00:00Z", "celsius": 1.5}
BAD: list[tuple[str | None, str]] = [
    ('{"device":"a","at":"2026-01-01T12:00:00Z","celsius":"hot"}', 'found "hot"'),
    ('{"at":"2026-01-01T12:00:00Z"}', "declared NOT NULL"),
    ("no json", "not a JSON object"),
    ('{"device":"a"}', "event time at: null"),
    (None, "no value (tombstone)"),
]


@dataclass(frozen=True)
class Broker:
    """A broker, a session and a folder, with topics and requests made for one test."""

    connection: Connection
    spark: SparkSession
    base: Path

    def topic(self, *values: Any, partitions: int = 1) -> str:
        name = f"t{uuid.uuid4().hex[:12]}"
        create_topic(self.connection, name, partitions=partitions)
        self.send(name, values, partitions)
        return name

    def send(self, topic: str, values: Iterable[Any], partitions: int = 1) -> None:
        producer = Producer({"bootstrap.servers": self.connection.require("bootstrap_servers")})
        for number, value in enumerate(values):
            text = json.dumps(value) if isinstance(value, dict) else value
            producer.produce(
                topic,
                None if text is None else text.encode(),
                key=str(number),
                partition=number % partitions,
                headers=[("origin", b"test")],
            )
        assert producer.flush(30) == 0

    def reads(self, schema: str | None = None, **facts: Any) -> ReadRequest:
        event_time = "at" if schema == SCHEMA else None
        return ReadRequest("s", schema, self.connection, self.base, event_time=event_time, **facts)

    def writes(self, mode: OutputMode = OutputMode.APPEND, **facts: Any) -> WriteRequest:
        key = facts.pop("key", ())
        return WriteRequest("t", mode, key, self.connection, self.base, "", **facts)

    def start(self, frame: DataFrame, sink: Any, request: WriteRequest, **trigger: Any) -> Any:
        writer = sink.write_stream(frame, request).outputMode(request.mode.value)
        writer = writer.option("checkpointLocation", str(self.base / "checkpoint"))
        return writer.trigger(**trigger).start()

    def records(self, topic: str) -> list[tuple[Any, ...]]:
        frame = kafka(topic).read_batch(self.spark, self.reads())
        found = frame.selectExpr("cast(key AS string)", "cast(value AS string)").collect()
        return sorted((tuple(row) for row in found), key=repr)

    def await_records(self, topic: str, amount: int, query: Any) -> int:
        deadline = time.monotonic() + 120
        while sum(end_offsets(self.connection, topic).values()) < amount:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline
            query.awaitTermination(0.1)
        return sum(end_offsets(self.connection, topic).values())


@pytest.fixture
def broker(kafka_connection: Connection, spark: SparkSession, tmp_path: Path) -> Broker:
    return Broker(kafka_connection, spark, tmp_path)


def accepted(frame: DataFrame) -> DataFrame:
    return frame.where(f"NOT {REJECTED}").drop(REJECTED)


def test_json_values_are_parsed_and_the_fields_stand_beside_them(broker: Broker) -> None:
    topic = broker.topic(GOOD, *(value for value, _ in BAD))
    source = kafka(topic, fields=("key", "offset", "headers"))
    frame = accepted(source.read_batch(broker.spark, broker.reads(SCHEMA)))
    (row,) = frame.collect()
    assert (row.device, row.at, row.celsius) == ("a", datetime(2026, 1, 1, 12), 1.5)
    assert (row._kafka.key, row._kafka.offset) == (b"0", 0)
    assert row._kafka.headers[0].key == "origin"


def test_without_a_schema_the_record_is_the_row(broker: Broker) -> None:
    topic = broker.topic("x")
    plain = ["key", "value", "topic", "partition", "offset", "timestamp"]
    frame = kafka(topic).read_batch(broker.spark, broker.reads())
    assert frame.columns == plain
    assert frame.first().value == b"x"
    with_headers = kafka(topic, fields=("headers",)).read_batch(broker.spark, broker.reads())
    assert with_headers.columns == [*plain, "headers"]


def test_rejected_records_are_found_by_the_offsets_of_their_batch(broker: Broker) -> None:
    topic = broker.topic(GOOD, *(value for value, _ in BAD), partitions=2)
    out = broker.topic()
    request = broker.reads(SCHEMA, max_per_batch=Limit.parse(2))
    frame = accepted(kafka(topic).read_stream(broker.spark, request))
    query = broker.start(frame, kafka(out), broker.writes(key=("device",)), availableNow=True)
    assert query.awaitTermination(300)
    ends = [batch.sources[0].endOffset for batch in query.recentProgress if batch.numInputRows]
    assert len(ends) == 3
    found = []
    for start, end in zip([None, *ends], ends, strict=False):
        part = OffsetRange(start, end, str(broker.base / "checkpoint" / "sources" / "0"), at_ms=0)
        rejected = kafka(topic).read_rejected(broker.spark, request, part)
        found += [(row.raw and row.raw.decode(), row.reason) for row in rejected.collect()]
    assert len(found) == len(BAD)
    for raw, reason in BAD:
        assert any(one == raw and reason in why for one, why in found)
    assert [key for key, _ in broker.records(out)] == ["a"]


@pytest.mark.parametrize("size", [10, 300_000], ids=["told", "too large to be told"])
def test_a_stream_keeps_the_rejected_records_that_a_second_reading_finds(
    broker: Broker, tmp_path: Path, size: int
) -> None:
    topic = broker.topic(GOOD, *(value for value, _ in BAD), *["x" * size] * 8)
    connections = {"kafka": dict(broker.connection.options)}
    app = Pipeline("app", settings=Settings(tmp_path, connections=connections))
    app.source("signals", kafka(topic), schema=SCHEMA, event_time="at", watermark="1 minute")
    once = Trigger.available_now()
    app.table(name="copies", trigger=once)(lambda signals: signals.drop("celsius"))
    # Another table over the source, which does not report what was rejected.
    app.table(name="others", trigger=once)(lambda signals: signals)
    run = app.start()
    try:
        assert run.await_termination(timeout_s=300)
    finally:
        run.stop()
    run.raise_failure()
    columns = ["reason", "raw", "topic", "partition", "offset", "timestamp"]
    again = kafka(topic).read_rejected(broker.spark, broker.reads(SCHEMA), None).select(*columns)
    kept = f"{tmp_path}/.headwater/app/tables/signals__rejected"
    found = broker.spark.read.format("delta").load(kept).select(*columns)
    assert len(again.collect()) == len(BAD) + 8
    assert found.exceptAll(again).isEmpty()
    assert again.exceptAll(found).isEmpty()
    for table in ("copies", "others"):
        stored = broker.spark.read.format("delta").load(f"{tmp_path}/.headwater/app/tables/{table}")
        assert [c for c in stored.columns if c.startswith("_")] == []
        assert stored.count() == 1


@pytest.mark.parametrize(
    ("choose", "amount"),
    [
        (lambda t: kafka(pattern=f"{t}.*"), 6),
        (lambda t: kafka(assign={t: [0]}), 3),
        (lambda t: kafka(t, starting={0: 1, 1: "earliest"}), 5),
        (lambda t: kafka(t, starting=datetime(2020, 1, 1, tzinfo=UTC)), 6),
        (lambda t: kafka(t, ending={0: 2, 1: 0}), 2),
    ],
    ids=["pattern", "assign", "offsets", "time", "ending"],
)
def test_a_part_of_the_topics_can_be_read(broker: Broker, choose: Any, amount: int) -> None:
    topic = broker.topic(*"abcdef", partitions=2)
    source = choose(topic)
    source.check_readable(broker.reads())
    assert source.read_batch(broker.spark, broker.reads()).count() == amount


def test_a_stream_starts_at_the_beginning_as_a_batch_does(broker: Broker) -> None:
    topic, out = broker.topic("x", "y"), broker.topic()
    frame = kafka(topic).read_stream(broker.spark, broker.reads())
    query = broker.start(frame, kafka(out), broker.writes(), availableNow=True)
    assert query.awaitTermination(300)
    expected = kafka(topic).read_batch(broker.spark, broker.reads()).count()
    assert sum(end_offsets(broker.connection, out).values()) == expected == 2
    with pytest.raises(NotReadable, match="latest"):
        kafka(topic, starting="latest").read_batch(broker.spark, broker.reads())


def test_every_row_goes_to_the_topic_that_it_names(broker: Broker) -> None:
    one, two = broker.topic(), broker.topic()
    source = broker.topic(one, two, two)
    frame = kafka(source).read_stream(broker.spark, broker.reads())
    routed = frame.selectExpr(
        "cast(value AS string) AS topic", "cast(key AS string) AS name", "1 n"
    )
    query = broker.start(routed, kafka(), broker.writes(key=("name", "n")), availableNow=True)
    assert query.awaitTermination(300)
    assert broker.records(one) == [('{"name":"0","n":1}', '{"name":"0","n":1}')]
    assert len(broker.records(two)) == 2
    with pytest.raises(InvalidConnector, match="no column `topic`"):
        kafka().write_stream(routed.drop("topic"), broker.writes())


@pytest.mark.parametrize(
    ("kind", "trigger", "mode"),
    [
        (TriggerKind.CONTINUOUS, {"continuous": "1 second"}, OutputMode.APPEND),
        (TriggerKind.REAL_TIME, {"realTime": "5 seconds"}, OutputMode.UPDATE),
    ],
)
def test_records_pass_under_the_fast_triggers(
    broker: Broker, kind: TriggerKind, trigger: dict[str, str], mode: OutputMode
) -> None:
    topic, out = broker.topic(GOOD, "no json", GOOD), broker.topic()
    frame = accepted(kafka(topic).read_stream(broker.spark, broker.reads(SCHEMA, trigger=kind)))
    query = broker.start(frame, kafka(out), broker.writes(mode, trigger=kind), **trigger)
    try:
        assert broker.await_records(out, 2, query) == 2
    finally:
        query.stop()


def test_a_continuous_table_resumes_and_keeps_what_it_rejected(
    broker: Broker, tmp_path: Path
) -> None:
    topic, out = broker.topic(GOOD, "no json", GOOD), broker.topic()
    connections = {"kafka": dict(broker.connection.options)}
    app = Pipeline("fast", settings=Settings(tmp_path, connections=connections))
    app.source("signals", kafka(topic), schema=SCHEMA)
    continuous = Trigger.continuous("1 second")
    app.table(name="copies", into=kafka(out), trigger=continuous)(lambda signals: signals)

    def run_until(records: int, commits: int) -> None:
        run = app.start()
        try:
            broker.await_records(out, records, run["copies"].streaming_query)
            reached = (run["copies"].last_batch or 0) + commits
            assert wait_until(lambda: (run["copies"].last_batch or 0) >= reached, timeout_s=300)
        finally:
            run.stop()
        run.raise_failure()

    run_until(2, commits=2)
    rejected = f"{tmp_path}/.headwater/fast/tables/signals__rejected"
    assert broker.spark.read.format("delta").load(rejected).count() == 1
    broker.send(topic, [GOOD, "no json either"])
    run_until(3, commits=2)
    assert broker.spark.read.format("delta").load(rejected).count() == 2


def test_progress_can_be_tracked_asynchronously(broker: Broker) -> None:
    topic, out = broker.topic("x", "y"), broker.topic()
    frame = kafka(topic).read_stream(broker.spark, broker.reads())
    request = broker.writes(is_async_progress=True)
    query = broker.start(frame, kafka(out), request, processingTime="0 seconds")
    try:
        assert broker.await_records(out, 2, query) == 2
    finally:
        query.stop()


def test_a_log_with_holes_is_gone_on_from_by_a_query_that_logs_every_batch(broker: Broker) -> None:
    """Asynchronous progress logs one batch in a second; a run that ends, and one that is exactly
    once, log all."""
    topic, out = broker.topic(), broker.topic()

    def copying(guarantee: str) -> Pipeline:
        connections = {"kafka": broker.connection.options}
        app = Pipeline("holes", settings=Settings(broker.base, connections=connections))
        app.source("records", kafka(topic))
        app.table(name="copied", into=kafka(out), guarantee=guarantee)(
            lambda records: records.selectExpr("CAST(value AS string) AS value")
        )
        return app

    sent = 0

    def run_until_there_is_a_hole() -> None:
        nonlocal sent
        run = copying("at_least_once").start()
        try:
            while not has_hole(broker.base):
                broker.send(topic, [f"{sent}"])
                sent += 1
                broker.await_records(out, sent, run["copied"].streaming_query)
        finally:
            run.stop()

    for guarantee in ("at_least_once", "exactly_once"):
        run_until_there_is_a_hole()
        broker.send(topic, [f"{sent}"])
        sent += 1
        copying(guarantee).refresh()
        assert {value for _, value in broker.records(out)} == {*map(str, range(sent))}


def has_hole(base: Path) -> bool:
    """Whether the newest two batches of the log are not neighbours."""
    names = (base / ".headwater/holes/checkpoints/copied/offsets").glob("[0-9]*")
    *_, before, newest = [-1, -1, *sorted(int(path.name) for path in names)]
    return before not in (-1, newest - 1)


def test_a_missing_topic_is_named_with_the_nearest_and_created_on_request(broker: Broker) -> None:
    topic = broker.topic()
    wrong = topic[:-1]
    with pytest.raises(TopicMissing) as caught:
        kafka(wrong).check_readable(broker.reads())
    assert caught.value.code == "TOPIC_MISSING"
    assert f"did you mean {topic!r}?" in str(caught.value)
    with pytest.raises(TopicMissing):
        kafka(wrong).check_writable(broker.writes())
    kafka(wrong, create=True, partitions=3).check_writable(broker.writes())
    assert partition_count(broker.connection, wrong) == 3


def test_a_batch_cannot_replace_a_topic(broker: Broker) -> None:
    with pytest.raises(NotReplaceable):
        kafka("any").write_batch(broker.spark.range(1), broker.writes())
    with pytest.raises(InvalidConnector, match="one topic"):
        kafka("a", "b").check_writable(broker.writes())
    unnamed = replace(broker.reads(), connection=None)
    with pytest.raises(InvalidConnector, match="no connection"):
        kafka("a").check_readable(unnamed)
