"""How long rows took from their event to the commit, as it is counted while they pass."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json as json_files
from headwater.events import BatchCompleted, Event
from headwater.settings import Settings

pytestmark = pytest.mark.usefixtures("spark")


def write(folder: Path, number: int, now_s: float, *ages_s: float) -> None:
    stamps = [dt.datetime.fromtimestamp(now_s - age, dt.UTC).isoformat() for age in ages_s]
    file = folder / f"in/{number}.json"
    file.write_text("".join(json.dumps({"at": stamp}) + "\n" for stamp in stamps))
    os.utime(file, (number, number))


def test_quantiles_are_those_of_the_rows_of_each_batch(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    now_s = time.time()
    write(tmp_path, 1, now_s, *[600.0] * 98, 6000.0, 60_000.0)
    write(tmp_path, 2, now_s, *[50_000.0] * 3)
    app = Pipeline("app", settings=Settings(folder=tmp_path))
    app.source(
        "signals",
        json_files("in"),
        schema="at timestamp",
        event_time="at",
        watermark="1 day",
        max_per_batch="1 files",
        max_ahead="off",
    )
    app.table(name="raw")(lambda signals: signals)
    app.table(name="counts")(lambda signals: signals.groupBy(F.window("at", "1 hour")).count())
    heard: list[Event] = []
    app.refresh(report=heard.append)
    passed_s = time.time() - now_s
    for table in ("raw", "counts"):
        first, second = [
            event
            for event in heard
            if isinstance(event, BatchCompleted) and event.table == table and event.input_rows
        ]
        assert sum(first.latency_rows.values()) == 100
        assert list(second.latency_rows.values()) == [3]
        for found_ms, age_s in (
            (first.latency_p50_ms, 600),
            (first.latency_p99_ms, 6000),
            (max(first.latency_rows), 60_000),
            (second.latency_p50_ms, 50_000),
            (second.latency_p99_ms, 50_000),
        ):
            assert found_ms is not None
            # A bucket is an eighth wide, and rows wait until their batch is committed.
            assert age_s <= found_ms / 1000 <= (age_s + passed_s) * 9 / 8 + passed_s, (table, age_s)
        # All rows of the second batch are of one age: the end of their bucket is not told.
        assert second.latency_max_ms is not None
        assert second.latency_p50_ms == second.latency_p99_ms == second.latency_max_ms
