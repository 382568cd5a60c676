"""A fleet of devices that writes its signals to a Kafka topic.

Every record has an id of its own. Records arrive a little out of order; a few are minutes late,
and a few are malformed.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

_PAUSE_S = 0.05
_MALFORMED = 0.004
_LATE = 0.002


@dataclass
class Fleet:
    """Writes `rate` records a second from `devices` devices until it is stopped.

    Runs in a thread of its own. `stop` returns when the broker has every record.
    """

    bootstrap_servers: str
    topic: str
    rate: int = 1000
    devices: int = 100
    for_s: float | None = None
    seed: int = 7
    sent: int = 0
    failure: BaseException | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _asked: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="headwater-fleet", daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def stop(self) -> None:
        self._asked.set()
        self._thread.join()

    def _work(self) -> None:
        try:
            self._produce()
        except BaseException as problem:
            self.failure = problem
        finally:
            self._ended.set()

    def _produce(self) -> None:
        from confluent_kafka import Producer

        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            # A retry must not put a record into the topic twice: ids are the proof's measure.
            "enable.idempotence": True,
            "linger.ms": 20,
            "log_level": 0,
        }
        producer = Producer(settings)
        began = time.monotonic()
        while not self._asked.is_set():
            elapsed = time.monotonic() - began
            if self.for_s is not None and elapsed >= self.for_s:
                break
            while self.sent < elapsed * self.rate:
                signal = self._signal(self.sent)
                producer.produce(self.topic, value=signal[1], key=signal[0])
                self.sent += 1
            producer.poll(0)
            self._asked.wait(_PAUSE_S)
        producer.flush()

    def _signal(self, number: int) -> tuple[bytes, bytes]:
        """Key and value of one record."""
        chance = self._random.random()
        device = f"device-{self._random.randrange(self.devices):03d}"
        delay_s = 180.0 if chance < _LATE else self._random.expovariate(1.0)
        at = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=delay_s)
        value = json.dumps(
            {
                "id": number,
                "device": device,
                "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "celsius": round(self._random.gauss(21.0, 4.0), 2),
            }
        )
        if chance > 1 - _MALFORMED:
            value = value[: len(value) // 2]
        return device.encode(), value.encode()
