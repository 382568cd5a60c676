"""Measures latency and throughput of one Kafka-to-Kafka table under four triggers.

    python latency.py [--rate 200] [--seconds 20] [--warm-up 5] [--burst 50000]

Latency is the time from just before a row is handed to the producer until the consumer of the
output topic holds it, both by the clock of this one process. Throughput is that of a burst: rows
that are sent as fast as one producer can, from the first one sent to the last one that arrived. A
row that does not arrive within 60 seconds fails the run.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app import WAYS, latency
from confluent_kafka import Consumer, Producer

from headwater.connectors.kafka import create_topic
from headwater.local import services
from headwater.local.kafka import Kafka
from headwater.settings import Connection, load

FOLDER = Path(__file__).parent
DEADLINE_S = 60.0


@dataclass(frozen=True)
class Latency:
    """What was measured under one trigger; `repeats` counts rows that arrived once more."""

    trigger: str
    rows: int
    repeats: int
    p50_ms: float
    p99_ms: float
    most_ms: float
    burst_rows_per_s: int


@dataclass
class Outbox:
    """Sends numbered rows and notes when."""

    producer: Producer
    sent_ns: list[int] = field(default_factory=list)

    def send(self) -> None:
        number = len(self.sent_ns)
        self.sent_ns.append(time.time_ns())
        self.producer.produce("pings", value=str(number))
        self.producer.poll(0)

    def send_for(self, seconds: float, *, rate: int) -> range:
        """Sends `rate` rows a second, evenly; returns their numbers."""
        first, begun = len(self.sent_ns), time.monotonic()
        for number in range(round(rate * seconds)):
            time.sleep(max(0.0, begun + number / rate - time.monotonic()))
            self.send()
        self.producer.flush(DEADLINE_S)
        return range(first, len(self.sent_ns))

    def send_burst(self, rows: int) -> range:
        """Sends rows as fast as the producer takes them; returns their numbers."""
        first = len(self.sent_ns)
        for _ in range(rows):
            self.send()
        self.producer.flush(DEADLINE_S)
        return range(first, len(self.sent_ns))


@dataclass
class Inbox:
    """When each row arrived first."""

    arrived_ns: dict[int, int] = field(default_factory=dict)
    repeats: int = 0

    def listen(self, consumer: Consumer, is_over: threading.Event) -> None:
        while not is_over.is_set():
            messages = consumer.consume(1000, timeout=0.002)
            now = time.time_ns()
            for message in messages:
                if message.error():
                    continue
                number = int(message.value())
                self.repeats += number in self.arrived_ns
                self.arrived_ns.setdefault(number, now)

    def await_rows(self, numbers: Collection[int]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while missing := [number for number in numbers if number not in self.arrived_ns]:
            if time.monotonic() > deadline:
                raise SystemExit(f"{len(missing)} of {len(numbers)} rows did not arrive")
            time.sleep(0.02)


@contextmanager
def listening(address: str, topic: str) -> Iterator[Inbox]:
    """An inbox that fills while the block runs, from the topic's beginning."""
    settings = {
        "bootstrap.servers": address,
        "group.id": f"latency-{time.time_ns()}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer, inbox, is_over = Consumer(settings), Inbox(), threading.Event()
    consumer.subscribe([topic])
    listener = threading.Thread(target=inbox.listen, args=(consumer, is_over), daemon=True)
    listener.start()
    try:
        yield inbox
    finally:
        is_over.set()
        listener.join()
        consumer.close()


def measure(
    connection: Connection,
    name: str,
    *,
    rate: int,
    seconds: float,
    warm_up_s: float,
    burst: int,
) -> Latency:
    """Runs the table `name`, sends rows through it and times each of them."""
    address = connection.require("bootstrap_servers")
    create_topic(connection, f"pongs-{name}")
    outbox = Outbox(Producer({"bootstrap.servers": address, "linger.ms": 0}))
    run = latency.start(tables=[name])
    try:
        with listening(address, f"pongs-{name}") as inbox:
            _await_first_row(inbox, outbox)
            outbox.send_for(warm_up_s, rate=rate)
            measured = outbox.send_for(seconds, rate=rate)
            inbox.await_rows(measured)
            sent = outbox.send_burst(burst)
            inbox.await_rows(sent)
    finally:
        run.stop()
    run.raise_failure()
    took_ms = [(inbox.arrived_ns[n] - outbox.sent_ns[n]) / 1e6 for n in measured]
    percent = statistics.quantiles(took_ms, n=100, method="inclusive")
    figures = (round(figure, 1) for figure in (percent[49], percent[98], max(took_ms)))
    burst_s = (max(inbox.arrived_ns[n] for n in sent) - outbox.sent_ns[sent[0]]) / 1e9
    return Latency(name, len(took_ms), inbox.repeats, *figures, round(burst / burst_s))


def _await_first_row(inbox: Inbox, outbox: Outbox) -> None:
    """The source starts at the end of the topic, so rows are sent until one comes back."""
    deadline = time.monotonic() + 2 * DEADLINE_S
    while not inbox.arrived_ns:
        if time.monotonic() > deadline:
            raise SystemExit("no row came back")
        outbox.send_for(0.1, rate=10)
        time.sleep(0.1)


def machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "spark": importlib.metadata.version("pyspark"),
        "kafka": Kafka.version,
    }


def table(results: list[Latency]) -> str:
    head = f"{'trigger':<16}{'rows':>7}{'p50 ms':>9}{'p99 ms':>9}{'most ms':>9}"
    lines = [f"{head}{'burst rows/s':>14}"]
    for one in results:
        figures = f"{one.p50_ms:>9}{one.p99_ms:>9}{one.most_ms:>9}"
        lines.append(f"{one.trigger:<16}{one.rows:>7}{figures}{one.burst_rows_per_s:>14,}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Latency of one table under four triggers.")
    parser.add_argument("--rate", type=int, default=200, help="rows per second")
    parser.add_argument("--seconds", type=float, default=20, help="measured time per trigger")
    parser.add_argument("--warm-up", type=float, default=5, help="time before that, per trigger")
    parser.add_argument("--burst", type=int, default=50_000, help="rows sent at once")
    asked = parser.parse_args()
    settings = load(FOLDER)
    services.up(settings.local_folder, "kafka")
    latency.use_settings(settings)
    about = machine()
    results = []
    for name in WAYS:
        print(f"{name} …", flush=True)
        results.append(
            measure(
                settings.connection("kafka"),
                name,
                rate=asked.rate,
                seconds=asked.seconds,
                warm_up_s=asked.warm_up,
                burst=asked.burst,
            )
        )
    print(table(results))
    result = {
        "machine": about,
        "rows_per_s": asked.rate,
        "seconds": asked.seconds,
        "burst": asked.burst,
        "results": [asdict(one) for one in results],
    }
    (FOLDER / "result.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
