"""Failed queries start again where that may help."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from headwater import Pipeline
from headwater.connectors import foreach_batch, queue
from headwater.errors import LeaseLost
from headwater.events import Event, QueryFailed, QueryRestarting
from headwater.local.processes import wait_until
from headwater.runtime import query, supervision
from headwater.runtime.ownership import find_runs
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


def is_restarting(run: Any) -> bool:
    return "kept" in run and run["kept"].state is QueryState.RESTARTING


def started(
    tmp_path: Path, sink: Sink, *, restarts: int = 5, lease_s: int = 30
) -> tuple[Any, list[Event]]:
    app = Pipeline("app", settings=Settings(folder=tmp_path, restarts=restarts, lease_s=lease_s))
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
        reason = run["kept"].status["reason"]
    finally:
        run.stop()
    assert reason.startswith("goes on after batch 0; restart 2 of 5: QUERY_FAILED: ")
    assert "still away" in reason
    assert run["kept"].status["reason"] == "on request"
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
        reason = run["kept"].status["reason"]
    finally:
        run.stop()
    assert reason.startswith("QUERY_FAILED: ")
    assert "poison" in reason
    assert reason.endswith("; no restart: the function fails again (ValueError)")
    [found] = find_runs(tmp_path / ".headwater")
    assert found.record.changes["kept"]["state"] == "failed"
    assert found.record.changes["kept"]["reason"] == reason
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


def take_over(tmp_path: Path) -> None:
    """As another driver does when the lease was not renewed in time."""
    lease = tmp_path / ".headwater/app/lease/0000000002"
    lease.write_text(json.dumps({"host": "b", "pid": 7}))


def test_a_lease_that_is_lost_before_a_restart_calls_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "FIRST_WAIT_S", 3600.0)
    monkeypatch.setattr(supervision, "LONGEST_WAIT_S", 3600.0)
    sink = Sink(ConnectionError("away"))
    run, _ = started(tmp_path, sink, lease_s=1)
    try:
        assert wait_until(lambda: is_restarting(run), timeout_s=WAIT_S)
        take_over(tmp_path)
        assert wait_until(lambda: run.lost is not None, timeout_s=WAIT_S)
        assert not run.await_termination(timeout_s=WAIT_S)
    finally:
        run.stop()
    assert sink.kept == {0: 2}
    with pytest.raises(LeaseLost, match="process 7 on b"):
        run.raise_failure()


def test_a_lease_that_is_lost_during_a_restart_ends_the_query_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, is_under_way = query._execution, threading.Event()

    def held(streaming_query: Any) -> Any:
        if is_restarting(run):
            is_under_way.set()
            assert wait_until(lambda: run.lost is not None, timeout_s=WAIT_S)
        return asked(streaming_query)

    sink = Sink(ConnectionError("away"))
    run, _ = started(tmp_path, sink, lease_s=1)
    monkeypatch.setattr(query, "_execution", held)
    try:
        assert is_under_way.wait(WAIT_S)
        take_over(tmp_path)
        # Nothing else would end it: it waits for more input.
        ended = (QueryState.STOPPED, QueryState.FAILED)
        assert wait_until(lambda: run["kept"].state in ended, timeout_s=WAIT_S)
        assert "another driver has taken over" in run["kept"].status["reason"]
    finally:
        run.stop()
    with pytest.raises(LeaseLost):
        run.raise_failure()


def test_a_stop_calls_a_restart_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_WAIT_S", 3600.0)
    monkeypatch.setattr(supervision, "LONGEST_WAIT_S", 3600.0)
    sink = Sink(ConnectionError("away"))
    run, events = started(tmp_path, sink)

    assert wait_until(lambda: is_restarting(run), timeout_s=WAIT_S)
    status = run["kept"].status
    assert status["state"] == "restarting"
    assert status["reason"].startswith("restart 1 of 5: QUERY_FAILED: ")
    assert "away" in status["reason"]
    assert (status["next_try"] - status["since"]).total_seconds() == 3600
    told = run.status()["tables"][0]
    assert told["next_try"] == status["next_try"].isoformat(timespec="seconds")
    assert not run.await_termination(timeout_s=0.2)
    run.stop()
    ended = run["kept"].status
    assert ended["reason"] == f"{status['reason']}; the pipeline was stopped before"
    assert ended["next_try"] is None
    assert ended["since"] > status["since"]
    assert run["kept"].state is QueryState.FAILED
    assert dataclasses.asdict(events[-1])
