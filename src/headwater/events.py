"""What happens, as values: the terminal, the log, metrics and the console render these records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, slots=True)
class StepStarted(Event):
    """Set-up work that may take longer than a second has begun."""

    step: str


@dataclass(frozen=True, slots=True)
class StepFinished(Event):
    step: str
    seconds: float


Report = Callable[[Event], None]
"""Receives every event; must not block and must not raise."""


def silent(event: Event) -> None:
    """The report of callers who do not want to hear."""
