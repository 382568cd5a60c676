"""What the devices of the fleet measure, and what goes wrong with them.

A device follows a daily rhythm of its own around a level that moves slowly with the season; its
sensor adds noise. Faults come upon it: a spike, a drift, a value that is stuck, silence. Which, and
when, is the truth that the end of a demo judges by; nobody who learns ever sees it.

A day of this world lasts a minute, so that a demo sees several.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

DAY_S = 60.0
NOISE = 0.5
_SEASON_S = 600.0
_DRIFT = 6.0


class Kind(enum.Enum):
    SPIKE = "spike"
    DRIFT = "drift"
    STUCK = "stuck"
    SILENCE = "silence"


LENGTH_S = {Kind.SPIKE: 1.0, Kind.DRIFT: 20.0, Kind.STUCK: 14.0, Kind.SILENCE: 20.0}
_REST_S = 30.0
"""How long a device is left alone after a fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What was wrong with a device, from and up to; in seconds since 1970."""

    device: str
    kind: Kind
    start_s: float
    end_s: float
    size: float = 0.0

    def covers(self, at_s: float) -> bool:
        return self.start_s <= at_s < self.end_s


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    level: float
    day: float
    night: float
    phase: float
    season: float
    season_phase: float

    def expected(self, at_s: float) -> float:
        """What a sensor without noise would measure."""
        turn = 2 * math.pi * (at_s / DAY_S + self.phase)
        rhythm = self.day * math.sin(turn) + self.night * math.cos(2 * turn)
        season = self.season * math.sin(2 * math.pi * (at_s / _SEASON_S + self.season_phase))
        return self.level + rhythm + season


@dataclass
class World:
    """`devices` devices; one fault begins every `fault_every_s` seconds.

    The same seed gives the same devices and, asked at the same moments, the same faults.
    """

    seed: int
    devices: int
    fault_every_s: float = 1.5
    faults: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        self.fleet = [_device(number, chance) for number in range(self.devices)]
        self._chance = random.Random(self.seed + 1)
        self._of: dict[str, list[Fault]] = {device.name: [] for device in self.fleet}
        self._next_s: float | None = None
        self._stuck_at: dict[Fault, float] = {}

    def advance(self, now_s: float) -> Iterator[Fault]:
        """Lets faults begin that are due; the first call begins the count."""
        if self._next_s is None:
            self._next_s = now_s
        while self._next_s <= now_s:
            fault = self._fault(self._next_s)
            self._next_s += self.fault_every_s
            if fault is not None:
                self.faults.append(fault)
                self._of[fault.device].append(fault)
                yield fault

    def celsius(self, device: Device, at_s: float) -> float | None:
        """What the sensor says; None where it says nothing."""
        normal = device.expected(at_s)
        noise = self._chance.gauss(0.0, NOISE)
        for fault in self._of[device.name]:
            if not fault.covers(at_s):
                continue
            match fault.kind:
                case Kind.SILENCE:
                    return None
                case Kind.SPIKE:
                    return round(normal + noise + fault.size, 2)
                case Kind.DRIFT:
                    part = (at_s - fault.start_s) / (fault.end_s - fault.start_s)
                    return round(normal + noise + fault.size * part, 2)
                case Kind.STUCK:
                    return self._stuck_at.setdefault(fault, round(normal + noise, 2))
        return round(normal + noise, 2)

    def _fault(self, start_s: float) -> Fault | None:
        """A fault of a random kind at a device that had none for a while."""
        kind = self._chance.choice(list(Kind))
        device = self._chance.choice(self.fleet)
        sign = self._chance.choice((-1.0, 1.0))
        size = {Kind.SPIKE: self._chance.uniform(5.0, 10.0), Kind.DRIFT: _DRIFT}.get(kind, 0.0)
        if any(start_s < fault.end_s + _REST_S for fault in self._of[device.name]):
            return None
        return Fault(device.name, kind, start_s, start_s + LENGTH_S[kind], sign * size)


def device_name(number: int) -> str:
    return f"device-{number:04d}"


def _device(number: int, chance: random.Random) -> Device:
    return Device(
        name=device_name(number),
        level=chance.gauss(21.0, 4.0),
        day=chance.uniform(2.0, 4.0),
        night=chance.uniform(0.2, 0.8),
        phase=chance.random(),
        season=chance.uniform(1.0, 2.0),
        season_phase=chance.random(),
    )
