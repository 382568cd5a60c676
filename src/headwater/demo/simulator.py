"""A fleet of devices that writes its signals to a Kafka topic.

Every signal has an id of its own. What the devices measured in the two days before is written
first, then what they measure now. Records arrive a little out of order; a few are minutes late, a
few are there twice, a few come from clocks that are ahead, and a few are malformed.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headwater.demo.world import DAY_S, Device, Fault, World

_PAUSE_S = 0.05
_MALFORMED = 0.004
_LATE = 0.002
_TWICE = 0.003
_AHEAD = 0.001
_AHEAD_S = 3600.0
HISTORY_S = 2 * DAY_S
_HISTORY_PER_DEVICE = 100
_FAULTS_PER_DEVICE_S = 1 / 150
_CALM_S = 10.0
"""How long nothing goes wrong after the start."""
SETTLES_S = 25.0
"""A fault that begins so shortly before the end could not be found in time."""


@dataclass
class Fleet:
    """Writes `rate` records a second from `devices` devices until it is stopped.

    Runs in a thread of its own. `stop` returns when the broker has every record. The truth about
    the faults goes to the file `truth`, a JSON line each.
    """

    bootstrap_servers: str
    topic: str
    rate: int = 1000
    devices: int = 100
    seed: int = 7
    truth: Path | None = None
    sent: int = 0
    failure: BaseException | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _asked: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._ids = 0
        every_s = 1 / (_FAULTS_PER_DEVICE_S * self.devices)
        self._world = World(self.seed, self.devices, fault_every_s=every_s)

    @property
    def faults(self) -> list[Fault]:
        return self._world.faults

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
            send, flush = self._sending()
            self._write_live(send)
            flush()
        except BaseException as problem:
            self.failure = problem
        finally:
            self._ended.set()

    def write_history(self) -> None:
        """Writes what was measured in the two days before; returns when the broker has it."""
        now_s = time.time()
        records = min(_HISTORY_PER_DEVICE * self.devices, int(self.rate * HISTORY_S))
        send, flush = self._sending()
        for number in range(records):
            at_s = now_s - HISTORY_S * (1 - number / records)
            self._measure(self._random.choice(self._world.fleet), at_s, send)
        flush()

    def _sending(self) -> tuple[Callable[[bytes, bytes], None], Callable[[], object]]:
        """How a record is sent, and how to wait until the broker has all."""
        from confluent_kafka import Producer

        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            # A retry must not put a record into the topic twice: ids are the proof's measure.
            "enable.idempotence": True,
            "linger.ms": 100,
            "log_level": 0,
        }
        producer = Producer(settings)

        def send(key: bytes, value: bytes) -> None:
            try:
                producer.produce(self.topic, value=value, key=key)
            except BufferError:
                # The broker is behind, and the client's queue is full.
                producer.flush()
                producer.produce(self.topic, value=value, key=key)
            producer.poll(0)
            self.sent += 1

        return send, producer.flush

    def _write_live(self, send: Callable[[bytes, bytes], None]) -> None:
        began, before = time.monotonic(), self.sent
        while not self._asked.is_set():
            elapsed = time.monotonic() - began
            if elapsed > _CALM_S:
                self._tell(self._world.advance(time.time()))
            while self.sent - before < elapsed * self.rate and not self._asked.is_set():
                for key, value in self._signals():
                    send(key, value)
            self._asked.wait(_PAUSE_S)

    def _tell(self, faults: Iterator[Fault]) -> None:
        found = [asdict(fault) | {"kind": fault.kind.value} for fault in faults]
        if found and self.truth is not None:
            self.truth.parent.mkdir(parents=True, exist_ok=True)
            with self.truth.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(fault) + "\n" for fault in found)

    def _signals(self) -> list[tuple[bytes, bytes]]:
        """What a random device sends now: nothing while it is silent, a record twice at times."""
        found: list[tuple[bytes, bytes]] = []
        chance = self._random.random()
        delay_s = 180.0 if chance < _LATE else self._random.expovariate(1.0)
        device = self._random.choice(self._world.fleet)
        self._measure(device, time.time() - delay_s, lambda key, value: found.append((key, value)))
        return found

    def _measure(self, device: Device, at_s: float, send: Callable[[bytes, bytes], None]) -> None:
        celsius = self._world.celsius(device, at_s)
        if celsius is None:
            return
        chance = self._random.random()
        stamp_s = at_s + _AHEAD_S if chance < _AHEAD else at_s
        value = json.dumps(
            {
                "id": self._ids,
                "device": device.name,
                "at": moment(stamp_s),
                "celsius": celsius,
            }
        )
        self._ids += 1
        if chance > 1 - _MALFORMED:
            value = value[: len(value) // 2]
        for _ in range(2 if _AHEAD < chance < _AHEAD + _TWICE else 1):
            send(device.name.encode(), value.encode())


def moment(at_s: float) -> str:
    at = dt.datetime.fromtimestamp(at_s, dt.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
