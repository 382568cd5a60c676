"""Whether every record of a topic is in a table, and counted in a database, exactly once: seen by a
plain Kafka consumer, a plain Delta reader and a plain SQL client, not by Headwater's own
counters."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_POLL_S = 0.2
_AHEAD_S = 600.0
"""Far from both: the pipeline refuses a minute, and a wrong clock is an hour ahead."""


@dataclass(frozen=True, slots=True)
class TopicContent:
    """What a topic holds up to some offsets."""

    records: int
    ids: Counter[int]
    malformed: int
    ahead: int = 0
    """From clocks that are ahead."""

    @property
    def twice(self) -> int:
        return self.ids.total() - len(self.ids)


@dataclass(frozen=True, slots=True)
class Counted:
    """The readings that an aggregate in a database counted, and those it kept aside as late."""

    readings: int
    late: int


@dataclass(frozen=True, slots=True)
class Alerts:
    """Anomalies in their topic and in the database, by the ids of their readings."""

    told: Counter[int]
    stored: Counter[int]


@dataclass(frozen=True, slots=True)
class Proof:
    topic: str
    content: TopicContent
    rows: int
    missing: int
    twice: int
    unknown: int
    rejected: int
    counted: Counted | None = None
    alerts: Alerts | None = None

    @property
    def holds(self) -> bool:
        is_exact = self.missing == self.twice == self.unknown == 0
        is_told = self.rejected == self.content.malformed + self.content.ahead
        has_alerts = self.alerts is None or self.alerts.told == self.alerts.stored
        return is_exact and is_told and self._counts_all and has_alerts

    @property
    def _counts_all(self) -> bool:
        counted = self.counted
        return counted is None or counted.readings + counted.late == self.content.ids.total()

    def lines(self) -> list[str]:
        content, counted, alerts = self.content, self.counted, self.alerts
        in_database = []
        if counted is not None:
            in_database.append(
                f"  device_minutes in PostgreSQL: {counted.readings:,} readings counted, "
                f"{counted.late:,} late ones kept aside, of {content.ids.total():,}"
            )
        if alerts is not None:
            in_database.append(
                f"  alerts in PostgreSQL: {alerts.stored.total():,} rows, "
                f"{(alerts.told - alerts.stored).total():,} missing, "
                f"{(alerts.stored - alerts.told).total():,} twice"
            )
        return [
            "proof, by a plain Kafka consumer, Delta reader and SQL client:",
            f"  topic {self.topic}: {content.records:,} records up to the end offsets, "
            f"{content.malformed:,} malformed, {content.ahead:,} from clocks ahead, "
            f"{content.twice:,} sent twice",
            f"  table raw: {self.rows:,} rows, {self.missing:,} missing, {self.twice:,} twice, "
            f"{self.unknown:,} unknown",
            f"  records__rejected: {self.rejected:,} rows",
            *in_database,
            f"  {'holds: nothing is missing, nothing is there twice' if self.holds else 'FAILS'}",
        ]


def prove(
    bootstrap_servers: str,
    topic: str,
    ends: Mapping[int, int],
    *,
    raw: str,
    rejected: str,
    counted: Counted | None,
    alerts: Alerts | None,
) -> Proof:
    """Compares the topic up to the offsets `ends` with the Delta tables at two paths."""
    from deltalake import DeltaTable

    content = read_topic(bootstrap_servers, topic, ends)
    rows = DeltaTable(raw).to_pyarrow_table(columns=["id"]).column("id").to_pylist()
    ids = Counter(rows)
    return compared(topic, content, ids, rejected=_count(rejected), counted=counted, alerts=alerts)


def counted_in(address: str, table: str, *, late: str) -> Counted:
    """What the minutes in PostgreSQL sum up to, and the rows of the Delta table at `late`."""
    (readings,) = _asked(address, "SELECT coalesce(sum(readings), 0) FROM {}", table) or (0,)
    return Counted(int(readings), _count(late))


def alerts_in(address: str, table: str, *, bootstrap_servers: str, topic: str) -> Alerts:
    told = Counter(int(json.loads(value)["id"]) for value, _ in messages(bootstrap_servers, topic))
    return Alerts(told, Counter(_asked(address, "SELECT id FROM {}", table)))


def _asked(address: str, question: str, table: str) -> list[Any]:
    """The first column of the answer; nothing where the table was never made."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(address) as database:
        if database.execute("SELECT to_regclass(%s)", [table]).fetchone() == (None,):
            return []
        query = sql.SQL(question).format(sql.Identifier(table))
        return [row[0] for row in database.execute(query)]


def _count(path: str) -> int:
    from deltalake import DeltaTable

    return int(DeltaTable(path).count()) if DeltaTable.is_deltatable(path) else 0


def compared(
    topic: str,
    content: TopicContent,
    rows: Counter[Any],
    *,
    rejected: int,
    counted: Counted | None = None,
    alerts: Alerts | None = None,
) -> Proof:
    return Proof(
        topic=topic,
        content=content,
        rows=rows.total(),
        missing=sum(number not in rows for number in content.ids),
        twice=sum(count - 1 for count in rows.values() if count > 1),
        unknown=sum(count for number, count in rows.items() if number not in content.ids),
        rejected=rejected,
        counted=counted,
        alerts=alerts,
    )


def read_topic(bootstrap_servers: str, topic: str, ends: Mapping[int, int]) -> TopicContent:
    """Every record of every partition, from its beginning to its end offset."""
    ids: Counter[int] = Counter()
    records = malformed = ahead = 0
    for value, arrived_ms in messages(bootstrap_servers, topic, ends):
        records += 1
        number = readable_id(value)
        if number is None:
            malformed += 1
        elif is_ahead(value, arrived_ms):
            ahead += 1
        else:
            ids[number] += 1
    return TopicContent(records, ids, malformed, ahead)


def messages(
    bootstrap_servers: str, topic: str, ends: Mapping[int, int] | None = None
) -> Iterator[tuple[bytes, int]]:
    """Value and time of every record up to the end offsets, by default those of now."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "headwater-proof",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    try:
        ends = _ends_now(consumer, topic) if ends is None else ends
        open_ends = {partition: end for partition, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(topic, partition, 0) for partition in open_ends])
        while open_ends:
            for message in consumer.consume(num_messages=10_000, timeout=_POLL_S):
                problem, partition, offset = message.error(), message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if problem is not None and problem.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(problem)
                is_open = partition in open_ends
                if problem is None and is_open and offset < ends[partition]:
                    yield message.value() or b"", message.timestamp()[1]
                # A record that only marks the end of a transaction is never delivered.
                if is_open and (problem is not None or offset >= ends[partition] - 1):
                    del open_ends[partition]
    finally:
        consumer.close()


def _ends_now(consumer: Any, topic: str) -> dict[int, int]:
    from confluent_kafka import TopicPartition

    partitions = consumer.list_topics(topic, timeout=10.0).topics[topic].partitions
    found = {p: consumer.get_watermark_offsets(TopicPartition(topic, p)) for p in partitions}
    return {partition: end for partition, (_, end) in found.items()}


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


def is_ahead(value: bytes | None, arrived_ms: int) -> bool:
    """Whether a readable record is stamped long after it arrived."""
    at = dt.datetime.fromisoformat(json.loads(value or b"")["at"])
    return at.timestamp() > arrived_ms / 1000 + _AHEAD_S
