"""The demo writes as long as was asked for, or until there is something to judge, and judges from
the first retraining on."""

import pytest

from headwater.cli.demo_verdict import Delays, Length
from headwater.events import BatchCompleted, ModelPublished


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def published(version: int) -> ModelPublished:
    return ModelPublished("baseline", version, previous=version - 1)


def is_over_at(length: Length, clock: Clock, seconds: float) -> bool:
    clock.now_s = 1000.0 + seconds
    return length.is_over()


def test_what_was_asked_for_is_kept() -> None:
    clock = Clock()
    length = Length(20, clock)
    assert not is_over_at(length, clock, 19)
    assert is_over_at(length, clock, 21)


def test_two_minutes_are_enough_where_the_retraining_is_old_enough() -> None:
    clock = Clock()
    length = Length(None, clock)
    length.hear(published(1))
    clock.now_s += 60
    length.hear(published(2))
    assert not is_over_at(length, clock, 119)
    assert is_over_at(length, clock, 121)


def test_a_retraining_that_comes_late_is_waited_for() -> None:
    clock = Clock()
    length = Length(None, clock)
    length.hear(published(1))
    assert not is_over_at(length, clock, 130)
    length.hear(published(2))
    assert not is_over_at(length, clock, 160)
    # A later version does not put the end off.
    length.hear(published(3))
    assert is_over_at(length, clock, 171)


def test_without_a_retraining_it_ends_all_the_same() -> None:
    clock = Clock()
    length = Length(None, clock)
    assert not is_over_at(length, clock, 299)
    assert is_over_at(length, clock, 301)


def alerts(*latencies_ms: int) -> BatchCompleted:
    at = "2026-01-01T12:00:00.000Z"
    rows = dict.fromkeys(latencies_ms, 10)
    return BatchCompleted("alerts", 1, at, 10, 1.0, 2.0, 100, latency_rows=rows)


def test_delays_are_of_readings_after_the_first_retraining(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    delays = Delays(clock)
    for event in (published(1), alerts(9000), published(2)):
        delays.hear(event)
    clock.now_s += 3
    # Those of 4 s arrived a second before the retraining.
    for event in (alerts(2000, 4000), published(3)):
        delays.hear(event)
    delays.tell()
    assert "p50 2.0 s, p99 2.0 s" in capsys.readouterr().out
