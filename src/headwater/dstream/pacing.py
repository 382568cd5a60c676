"""When batches are due: at multiples of the interval, one after the other, none left out."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod


class Clock(ABC):
    """The time that a program lives by."""

    @abstractmethod
    def now_ms(self) -> int: ...

    @abstractmethod
    def wait_until(self, time_ms: int, stop: threading.Event) -> bool:
        """Returns when the time has come (True), or when `stop` is set."""


class WallClock(Clock):
    """The machine's time."""

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def wait_until(self, time_ms: int, stop: threading.Event) -> bool:
        while not stop.is_set():
            left_ms = time_ms - self.now_ms()
            if left_ms <= 0:
                return True
            stop.wait(left_ms / 1000)
        return False


class SteppedClock(Clock):
    """A time that stands still until a test moves it."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._moved = threading.Condition()

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, seconds: float) -> None:
        with self._moved:
            self._now_ms += round(seconds * 1000)
            self._moved.notify_all()

    def wait_until(self, time_ms: int, stop: threading.Event) -> bool:
        with self._moved:
            while not stop.is_set() and self._now_ms < time_ms:
                self._moved.wait(0.05)
        return not stop.is_set()


def first_batch_ms(now_ms: int, interval_ms: int) -> int:
    """The first multiple of the interval after now."""
    return (now_ms // interval_ms + 1) * interval_ms
