"""Advice on a run that goes on, told once."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from headwater.events import AdviceGiven, BatchCompleted, Event, QueryStarted
from headwater.observe.doctor.advising import Adviser, advising
from headwater.observe.lines import event_line
from headwater.runtime.about import FILE
from headwater.runtime.history import HistoryWriter, history_folder


def write(folder: Path, *, partitions: int, first: int = 0) -> None:
    writer = HistoryWriter(history_folder(folder, "app"))
    writer.start()
    if first == 0:
        writer.report(QueryStarted("minutes", "id", "run", None))
    for number in range(first, first + 10):
        at = f"2026-01-01T12:00:{number:02}.000Z"
        facts: dict[str, Any] = {"state_partitions": partitions}
        writer.report(BatchCompleted("minutes", number, at, 100, 10.0, 20.0, 500, **facts))
    writer.close()
    about = {"cores": 2, "nodes": [{"name": "minutes", "kind": "table", "reads": []}]}
    (history_folder(folder, "app") / FILE).write_text(json.dumps(about))


def test_what_is_found_later_is_told_and_nothing_twice(tmp_path: Path) -> None:
    told: list[Event] = []
    adviser = Adviser(tmp_path, "app", told.append, warm_up_s=0)
    adviser.look()
    write(tmp_path, partitions=2)
    adviser.look()
    assert told == []
    write(tmp_path, partitions=200, first=10)
    adviser.look()
    adviser.look()
    [said] = told
    assert isinstance(said, AdviceGiven)
    assert (said.rule, said.table) == ("too_many_partitions", "minutes")
    assert event_line(said) == f"minutes: {said.finding}; advice: {said.setting}"
    assert said.setting.startswith("shuffle_partitions = 2")


def test_nothing_is_told_of_a_run_that_warms_up(tmp_path: Path) -> None:
    told: list[Event] = []
    adviser = Adviser(tmp_path, "app", told.append)
    write(tmp_path, partitions=200)
    adviser.look()
    assert told == []


def test_a_run_is_looked_at_until_it_ends(tmp_path: Path) -> None:
    write(tmp_path, partitions=200)
    heard = threading.Event()
    hears = advising(tmp_path, "app", lambda event: heard.set(), every_s=0.01, warm_up_s=0)
    with hears:
        assert heard.wait(30)
