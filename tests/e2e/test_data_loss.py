"""Records and topics that the broker deleted before they were read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import SparkSession

from headwater import Pipeline
from headwater.connectors import kafka
from headwater.connectors.kafka import create_topic
from headwater.connectors.kafka.clients import admin_client, partition_count, topics_of
from headwater.errors import DataLost, TopicDeleted, TopicMissing
from headwater.events import Event, GapsFound
from headwater.local.processes import wait_until
from headwater.settings import Connection, Settings


def produce(connection: Connection, topic: str, *numbers: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": connection.require("bootstrap_servers")})
    for number in numbers:
        producer.produce(topic, json.dumps({"n": number}), partition=partition)
    assert producer.flush(30) == 0


def grow(connection: Connection, topic: str, partitions: int) -> None:
    """Returns when the broker tells the new partitions."""
    client = admin_client(connection)
    client.create_partitions([NewPartitions(topic, partitions)])[topic].result(timeout=120)
    assert wait_until(lambda: partition_count(connection, topic) == partitions, timeout_s=120)


def delete_before(connection: Connection, topic: str, offset: int) -> None:
    """As retention does."""
    client = admin_client(connection)
    asked = client.delete_records([TopicPartition(topic, 0, offset)])
    for answer in asked.values():
        answer.result(timeout=120)


def delete_topic(connection: Connection, topic: str) -> None:
    """Returns when the broker has forgotten it."""
    client = admin_client(connection)
    client.delete_topics([topic])[topic].result(timeout=120)
    assert wait_until(lambda: topic not in topics_of(connection), timeout_s=120)


def undo_last_commit(folder: Path) -> None:
    """As a crash between the sink and the checkpoint leaves it."""
    commits = folder / ".headwater/app/checkpoints/raw/commits"
    newest = max(int(file.name) for file in commits.glob("[0-9]*"))
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)


def application(connection: Connection, topic: str, folder: Path, **choices: Any) -> Pipeline:
    connections = {"kafka": dict(connection.options)}
    app = Pipeline("app", settings=Settings(folder, connections=connections))
    app.source("numbers", kafka(topic), schema="n int", **choices)
    app.table(name="raw")(lambda numbers: numbers)
    return app


def stored(spark: SparkSession, folder: Path, table: str) -> list[tuple[Any, ...]]:
    frame = spark.read.format("delta").load(str(folder / ".headwater/app/tables" / table))
    return sorted(tuple(row) for row in frame.collect())


def test_a_gap_is_found_before_the_start_and_kept(
    spark: SparkSession, kafka_connection: Connection, tmp_path: Path
) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    create_topic(kafka_connection, topic)
    produce(kafka_connection, topic, 0, 1, 2)
    application(kafka_connection, topic, tmp_path).refresh()
    produce(kafka_connection, topic, 3, 4, 5, 6)
    delete_before(kafka_connection, topic, 5)
    for _ in range(2):
        with pytest.raises(DataLost, match=f"{topic}/0: 3 to 5"):
            application(kafka_connection, topic, tmp_path).refresh()
    gaps = stored(spark, tmp_path, "numbers__gaps")
    assert [gap[:7] for gap in gaps] == [("raw", topic, 0, 3, 5, "deleted by the broker", 0)]
    assert stored(spark, tmp_path, "raw") == [(0,), (1,), (2,)]

    events: list[Event] = []
    app = application(kafka_connection, topic, tmp_path, on_data_loss="skip")
    app.refresh(report=events.append)
    assert stored(spark, tmp_path, "raw") == [(0,), (1,), (2,), (5,), (6,)]
    assert [event.table for event in events if isinstance(event, GapsFound)] == ["raw"]
    assert len(stored(spark, tmp_path, "numbers__gaps")) == 1
    app.refresh()
    assert len(stored(spark, tmp_path, "raw")) == 5


def test_more_partitions_and_a_broker_that_restarts_lose_nothing(
    spark: SparkSession,
    kafka_connection: Connection,
    kafka_folder: Path,
    restarted: Callable[[Path, str], None],
    tmp_path: Path,
) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    create_topic(kafka_connection, topic)
    produce(kafka_connection, topic, 0)
    application(kafka_connection, topic, tmp_path).refresh()
    grow(kafka_connection, topic, 2)
    produce(kafka_connection, topic, 1, partition=1)
    run = application(kafka_connection, topic, tmp_path).start()
    run["raw"].streaming_query.processAllAvailable()
    assert stored(spark, tmp_path, "raw") == [(0,), (1,)]
    # The query runs while the topic grows, and while the broker is away.
    grow(kafka_connection, topic, 3)
    produce(kafka_connection, topic, 2, partition=2)
    restarted(kafka_folder, "kafka")
    produce(kafka_connection, topic, 3)
    found = [(n,) for n in range(4)]
    assert wait_until(lambda: stored(spark, tmp_path, "raw") == found, timeout_s=120)
    run.stop()
    run.raise_failure()


def test_the_input_of_a_batch_that_did_not_end_counts_too(
    spark: SparkSession, kafka_connection: Connection, tmp_path: Path
) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    create_topic(kafka_connection, topic)
    for numbers in ((0, 1, 2), (3, 4)):
        produce(kafka_connection, topic, *numbers)
        application(kafka_connection, topic, tmp_path).refresh()
    undo_last_commit(tmp_path)
    delete_before(kafka_connection, topic, 5)
    with pytest.raises(DataLost, match=f"{topic}/0: 3 to 5"):
        application(kafka_connection, topic, tmp_path).refresh()


def test_a_topic_that_was_deleted_is_told_and_the_gap_kept(
    spark: SparkSession, kafka_connection: Connection, tmp_path: Path
) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    create_topic(kafka_connection, topic)
    produce(kafka_connection, topic, 0, 1, 2)
    application(kafka_connection, topic, tmp_path).refresh()
    delete_topic(kafka_connection, topic)
    with pytest.raises(TopicDeleted, match="make the topic again"):
        application(kafka_connection, topic, tmp_path).refresh()
    # There is nothing to go on with, so it is an error there too.
    with pytest.raises(TopicDeleted, match="make the topic again"):
        application(kafka_connection, topic, tmp_path, on_data_loss="skip").refresh()
    gaps = stored(spark, tmp_path, "numbers__gaps")
    assert [gap[:7] for gap in gaps] == [("raw", topic, 0, 3, None, "the topic was deleted", 0)]

    create_topic(kafka_connection, topic)
    produce(kafka_connection, topic, 10, 11)
    with pytest.raises(TopicDeleted, match="was deleted and made anew"):
        application(kafka_connection, topic, tmp_path).refresh()
    assert stored(spark, tmp_path, "raw") == [(0,), (1,), (2,)]
    skipping = application(kafka_connection, topic, tmp_path, on_data_loss="skip")
    skipping.refresh()
    found = [(n,) for n in (0, 1, 2, 10, 11)]
    assert stored(spark, tmp_path, "raw") == found
    reasons = [gap[5] for gap in stored(spark, tmp_path, "numbers__gaps")]
    assert reasons == ["the topic was deleted", "the topic was deleted and made anew"]
    produce(kafka_connection, topic, 12)
    skipping.refresh()
    assert stored(spark, tmp_path, "raw") == [*found, (12,)]


def test_a_batch_of_a_deleted_topic_that_did_not_end_takes_nothing_of_the_new_one(
    spark: SparkSession, kafka_connection: Connection, tmp_path: Path
) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    create_topic(kafka_connection, topic)
    for numbers in ((0, 1, 2), (3, 4)):
        produce(kafka_connection, topic, *numbers)
        application(kafka_connection, topic, tmp_path).refresh()
    undo_last_commit(tmp_path)
    delete_topic(kafka_connection, topic)
    create_topic(kafka_connection, topic)
    produce(kafka_connection, topic, 10)
    application(kafka_connection, topic, tmp_path, on_data_loss="skip").refresh()
    # The sink had 3 and 4 already, and knows their batch.
    assert stored(spark, tmp_path, "raw") == [(n,) for n in (0, 1, 2, 3, 4, 10)]


def test_a_topic_that_no_checkpoint_knows_is_missing(
    kafka_connection: Connection, spark: SparkSession, tmp_path: Path
) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    create_topic(kafka_connection, topic)
    produce(kafka_connection, topic, 0)
    application(kafka_connection, topic, tmp_path).refresh()
    with pytest.raises(TopicMissing):
        application(kafka_connection, f"{topic}-other", tmp_path).refresh()


def test_a_gap_that_has_grown_is_kept_again(
    spark: SparkSession, kafka_connection: Connection, tmp_path: Path
) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    create_topic(kafka_connection, topic)
    produce(kafka_connection, topic, 0, 1, 2)
    application(kafka_connection, topic, tmp_path).refresh()
    produce(kafka_connection, topic, 3, 4, 5, 6)
    for offset in (4, 4, 6):
        delete_before(kafka_connection, topic, offset)
        with pytest.raises(DataLost, match=f"{topic}/0: 3 to {offset}"):
            application(kafka_connection, topic, tmp_path).refresh()
    gaps = stored(spark, tmp_path, "numbers__gaps")
    assert [gap[3:5] for gap in gaps] == [(3, 4), (3, 6)]


def test_without_the_check_the_gap_would_be_passed_over_in_silence(
    spark: SparkSession,
    kafka_connection: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    create_topic(kafka_connection, topic)
    produce(kafka_connection, topic, 0)
    application(kafka_connection, topic, tmp_path).refresh()
    produce(kafka_connection, topic, 1, 2)
    delete_before(kafka_connection, topic, 2)
    monkeypatch.setattr("headwater.runtime.gaps.GapGuard.check", lambda *_: None)
    application(kafka_connection, topic, tmp_path, on_data_loss="skip").refresh()
    assert stored(spark, tmp_path, "raw") == [(0,), (2,)]
    assert not (tmp_path / ".headwater/app/tables/numbers__gaps").exists()
