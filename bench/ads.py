"""The input of the Yahoo streaming benchmark, and its oracle.

100 campaigns of 10 ads; events of type view, click or purchase. Counted are the views per
campaign and window of 10 seconds.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CAMPAIGNS = 100
ADS_PER_CAMPAIGN = 10
PARTITIONS = 2
_TYPES = ("view", "click", "purchase")

Counts = Counter[tuple[str, int]]
"""Views by campaign and beginning of the window, in seconds."""


def write_ads(folder: Path) -> None:
    lines = ["ad_id,campaign_id"]
    lines += [f"ad-{ad},campaign-{ad // ADS_PER_CAMPAIGN}" for ad in range(_ads())]
    (folder / "ads.csv").write_text("\n".join(lines) + "\n")


def create_topic(address: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for created in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        created.result()


def send_backlog(address: str, topic: str, rows: int) -> Counts:
    """Sends rows whose event times advance evenly over ten minutes; returns the oracle."""
    producer = _producer(address)
    counts: Counts = Counter()
    chance = random.Random(7)
    began_ms = 1_767_225_600_000
    for row in range(rows):
        at_ms = began_ms + row * 600_000 // rows
        _send(producer, topic, chance, at_ms, counts)
        if row % 10_000 == 0:
            producer.poll(0)
    producer.flush()
    return counts


def send_steadily(address: str, topic: str, *, rate: int, seconds: float) -> Counts:
    """Sends `rate` rows a second, stamped with the moment of sending."""
    producer = _producer(address)
    counts: Counts = Counter()
    chance = random.Random(7)
    began = time.time()
    for row in range(int(rate * seconds)):
        while time.time() < began + row / rate:
            producer.poll(0.001)
        _send(producer, topic, chance, int(time.time() * 1000), counts)
    producer.flush()
    return counts


def results(address: str, topic: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Every record of an output topic, with the time at which the broker has it."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    )
    try:
        for partition in consumer.list_topics(topic).topics[topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition))
            consumer.assign([TopicPartition(topic, partition, low)])
            for _ in range(high - low):
                message = consumer.poll(10)
                assert message is not None
                yield json.loads(message.value()), message.timestamp()[1]
    finally:
        consumer.close()


def check(address: str, topic: str, oracle: Counts) -> None:
    """In update mode the highest count of a window is its last."""
    found: Counts = Counter()
    for row, _ in results(address, topic):
        key = (row["campaign_id"], row["window_s"])
        found[key] = max(found[key], row["n"])
    assert found == oracle, f"{len(found)} windows found, {len(oracle)} expected"


def _send(
    producer: Producer,
    topic: str,
    chance: random.Random,
    at_ms: int,
    counts: Counts,
) -> None:
    ad = chance.randrange(_ads())
    kind = _TYPES[chance.randrange(3)]
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms // 1000)) + f".{at_ms % 1000:03}Z"
    value = (
        f'{{"user_id":"user-{chance.randrange(100_000)}","page_id":"page-{ad % 97}",'
        f'"ad_id":"ad-{ad}","ad_type":"banner","event_type":"{kind}",'
        f'"event_time":"{stamp}","ip_address":"10.1.2.3"}}'
    )
    _patiently(lambda: producer.produce(topic, value, partition=ad % PARTITIONS), producer)
    if kind == "view":
        counts[f"campaign-{ad // ADS_PER_CAMPAIGN}", at_ms // 10_000 * 10] += 1


def _patiently(produce: Callable[[], None], producer: Producer) -> None:
    while True:
        try:
            produce()
            return
        except BufferError:
            producer.poll(0.1)


def _producer(address: str) -> Producer:
    return Producer({"bootstrap.servers": address, "linger.ms": 5, "batch.num.messages": 10_000})


def _ads() -> int:
    return CAMPAIGNS * ADS_PER_CAMPAIGN
