"""Whether every record of a topic is in a table, exactly once: seen by a plain Kafka consumer and
a plain Delta reader, not by Headwater's own counters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TopicContent:
    """What a topic holds up to some offsets."""

    records: int
    ids: Counter[int]
    malformed: int


@dataclass(frozen=True, slots=True)
class Proof:
    topic: str
    content: TopicContent
    rows: int
    missing: int
    twice: int
    unknown: int
    rejected: int

    @property
    def holds(self) -> bool:
        is_exact = self.missing == self.twice == self.unknown == 0
        return is_exact and self.rejected == self.content.malformed

    def lines(self) -> list[str]:
        content = self.content
        readable = content.records - content.malformed
        return [
            "proof, by a plain Kafka consumer and a plain Delta reader:",
            f"  topic {self.topic}: {content.records:,} records up to the end offsets, "
            f"{readable:,} readable, {content.malformed:,} malformed",
            f"  table raw: {self.rows:,} rows, {self.missing:,} missing, {self.twice:,} twice, "
            f"{self.unknown:,} unknown",
            f"  signals__rejected: {self.rejected:,} rows",
            f"  {'holds: nothing is missing, nothing is there twice' if self.holds else 'FAILS'}",
        ]


def prove(
    bootstrap_servers: str, topic: str, ends: Mapping[int, int], *, raw: str, rejected: str
) -> Proof:
    """Compares the topic up to the offsets `ends` with the Delta tables at two paths."""
    from deltalake import DeltaTable

    content = read_topic(bootstrap_servers, topic, ends)
    rows = DeltaTable(raw).to_pyarrow_table(columns=["id"]).column("id").to_pylist()
    kept = DeltaTable(rejected).count() if DeltaTable.is_deltatable(rejected) else 0
    return compared(topic, content, Counter(rows), rejected=kept)


def compared(topic: str, content: TopicContent, rows: Counter[Any], *, rejected: int) -> Proof:
    return Proof(
        topic=topic,
        content=content,
        rows=rows.total(),
        missing=(content.ids - rows).total(),
        twice=sum(count - 1 for count in rows.values() if count > 1),
        unknown=sum(count for number, count in rows.items() if number not in content.ids),
        rejected=rejected,
    )


def read_topic(bootstrap_servers: str, topic: str, ends: Mapping[int, int]) -> TopicContent:
    """Every record of every partition, from its beginning to its end offset."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "headwater-proof",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    open_ends = {partition: end for partition, end in ends.items() if end > 0}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in open_ends])
    ids: Counter[int] = Counter()
    records = malformed = 0
    try:
        while open_ends:
            for message in consumer.consume(num_messages=10_000, timeout=10.0):
                if (problem := message.error()) is not None:
                    raise KafkaException(problem)
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if partition in open_ends and offset < ends[partition]:
                    records += 1
                    number = readable_id(message.value())
                    if number is None:
                        malformed += 1
                    else:
                        ids[number] += 1
                if partition in open_ends and offset >= ends[partition] - 1:
                    del open_ends[partition]
    finally:
        consumer.close()
    return TopicContent(records, ids, malformed)


def readable_id(value: bytes | None) -> int | None:
    """The id of a record that parses, judged without Spark."""
    try:
        record = json.loads(value or b"")
    except ValueError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get("celsius"), int | float):
        return None
    number = record.get("id")
    return number if isinstance(number, int) else None
