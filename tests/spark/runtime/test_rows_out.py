"""How many rows reach a sink, as it is counted while they pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import foreach_batch, memory, parquet, queue
from headwater.events import BatchCompleted, Event
from headwater.settings import Settings

pytestmark = pytest.mark.usefixtures("spark")

BATCHES = [[("a",), ("b",), ("c",), ("a",)], [("a",), ("z",)], [("b",)]]


def run_twice(rows: DataFrame, batch: int) -> None:
    rows.collect()
    rows.collect()


SINKS: dict[str, dict[str, Any]] = {
    "appended": {},
    "merged": {"mode": "update", "key": "word"},
    "in_files": {"into": parquet("files")},
    "in_memory": {"into": memory()},
    "by_function": {"into": foreach_batch(run_twice)},
}


def test_rows_of_each_batch_are_counted_once_whatever_the_sink_does(tmp_path: Path) -> None:
    app = Pipeline("app", settings=Settings(folder=tmp_path))
    app.source("words", queue(BATCHES), schema="word string")
    for name, choices in SINKS.items():
        is_merged = "key" in choices
        app.table(name=name, unbounded_state=is_merged, **choices)(
            (lambda words: words.groupBy("word").count())
            if is_merged
            else (
                lambda words: words.where("word < 'x'").select(F.explode(F.array("word", "word")))
            )
        )
    heard: list[Event] = []
    app.refresh(report=heard.append)
    for name in SINKS:
        found = [
            event.output_rows
            for event in heard
            if isinstance(event, BatchCompleted) and event.table == name
        ]
        assert found[:3] == ([3, 2, 1] if name == "merged" else [8, 2, 2]), name
