"""Failed queries start again where that may help."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from headwater import Pipeline
from headwater.connectors import foreach_batch, queue
from headwater.events import Event, QueryFailed, QueryRestarting
from headwater.local.processes import wait_until
from headwater.runtime import query, supervision
from headwater.runtime.query import QueryState
from headwater.settings import Settings

pytestmark = pytest.mark.usefixtures("spark")
WAIT_S = 300.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_WAIT_S", 0.05)


class Sink:
    """A function that fails as it is told, and then keeps what it gets."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.kept: dict[int, int] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if batch == 1 and self.failures:
            raise self.failures.pop(0)
        self.kept[batch] = frame.count()


def started(tmp_path: Path, sink: Sink, *, restarts: int = 5) -> tuple[Any, list[Event]]:
    app = Pipeline("app", settings=Settings(folder=tmp_path, restarts=restarts))
    app.source("words", queue([[("a",), ("b",)], [("c",)], [("d",)]]), schema="word string")
    app.table(name="kept", into=foreach_batch(sink))(lambda words: words)
    events: list[Event] = []
    return app.start(report=events.append), events


def test_a_failure_that_passes_is_survived(tmp_path: Path) -> None:
    sink = Sink(ConnectionError("away"), ConnectionError("still away"))
    run, events = started(tmp_path, sink)
    try:
        assert wait_until(lambda: sink.kept == {0: 2, 1: 1, 2: 1}, timeout_s=WAIT_S)
        assert run["kept"].state is QueryState.RUNNING
    finally:
        run.stop()
    told = [event for event in events if isinstance(event, QueryRestarting)]
    assert [event.attempt for event in told] == ["restart 1 of 5", "restart 2 of 5"]
    assert "away" in told[0].reason
    assert not [event for event in events if isinstance(event, QueryFailed)]


def test_a_failure_that_stays_is_final(tmp_path: Path) -> None:
    sink = Sink(ValueError("poison"))
    run, events = started(tmp_path, sink)
    try:
        assert run.await_termination(timeout_s=WAIT_S)
        assert run["kept"].state is QueryState.FAILED
        assert sink.kept == {0: 2}
    finally:
        run.stop()
    assert [type(event) for event in events].count(QueryFailed) == 1
    assert not [event for event in events if isinstance(event, QueryRestarting)]


def test_the_budget_ends(tmp_path: Path) -> None:
    sink = Sink(*[ConnectionError("away")] * 9)
    run, events = started(tmp_path, sink, restarts=2)
    try:
        assert run.await_termination(timeout_s=WAIT_S)
        summary = run.status()["tables"][0]
    finally:
        run.stop()
    assert summary["state"] == "failed"
    assert summary["since"]
    assert len(sink.failures) == 6
    assert [type(event) for event in events].count(QueryRestarting) == 2


def test_a_query_goes_on_at_every_moment_of_its_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    asked = query._execution

    def looked_at(streaming_query: Any) -> Any:
        if "kept" in run:
            seen.append(run["kept"].is_going_on)
        return asked(streaming_query)

    sink = Sink(ConnectionError("away"))
    run, _ = started(tmp_path, sink)
    monkeypatch.setattr(query, "_execution", looked_at)
    try:
        assert wait_until(lambda: sink.kept == {0: 2, 1: 1, 2: 1}, timeout_s=WAIT_S)
    finally:
        run.stop()
    assert seen
    assert all(seen)


def test_a_stop_calls_a_restart_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_WAIT_S", 3600.0)
    monkeypatch.setattr(supervision, "LONGEST_WAIT_S", 3600.0)
    sink = Sink(ConnectionError("away"))
    run, events = started(tmp_path, sink)

    def is_restarting() -> bool:
        return "kept" in run and run["kept"].state is QueryState.RESTARTING

    assert wait_until(is_restarting, timeout_s=WAIT_S)
    assert "away" in run.status()["tables"][0]["reason"]
    assert not run.await_termination(timeout_s=0.2)
    run.stop()
    assert run["kept"].state is QueryState.FAILED
    assert dataclasses.asdict(events[-1])
