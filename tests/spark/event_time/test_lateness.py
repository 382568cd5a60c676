"""How far rows were behind, as it is measured while they pass and kept across runs."""

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
from headwater.runtime import running
from headwater.runtime.lateness import Lateness, measured
from headwater.runtime.running import RunningPipeline
from headwater.runtime.storage import Files, Storage
from headwater.settings import Settings

pytestmark = pytest.mark.usefixtures("spark")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def write(folder: Path, number: int, *seconds: int) -> None:
    times = [(NOON + dt.timedelta(seconds=second)).isoformat() for second in seconds]
    file = folder / f"in/{number}.json"
    file.write_text("".join(json.dumps({"at": time}) + "\n" for time in times))
    os.utime(file, (number, number))


def pipeline(folder: Path) -> Pipeline:
    app = Pipeline("app")
    app.use_settings(Settings(folder))
    app.source(
        "signals",
        json_files("in"),
        schema="at timestamp",
        event_time="at",
        watermark="1 minute",
        max_per_batch="1 files",
    )
    app.table(name="counts")(lambda signals: signals.groupBy(F.window("at", "10 seconds")).count())
    return app


def found_in(folder: Path) -> Lateness:
    storage = Storage(str(folder / ".headwater"), "app")
    found = measured(Files(storage), storage, "signals")
    assert found is not None
    return found


def await_rows(run: RunningPipeline, folder: Path, rows: int) -> None:
    until = time.monotonic() + 60
    while found_in(folder).rows < rows and time.monotonic() < until:
        run.await_termination(timeout_s=0.1)
    assert found_in(folder).rows == rows


def test_rows_are_measured_against_the_newest_of_earlier_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path, 1, *range(100))  # nothing came before
    write(tmp_path, 2, 100, 99, 98, 59, 200)  # behind 99: 1 s and 40 s
    write(tmp_path, 3, 300, 190, 100)  # behind 200: 10 s and 100 s
    pipeline(tmp_path).refresh()
    found = found_in(tmp_path)
    assert (found.rows, found.p50_ms, found.max_ms) == (8, 0, 100_000)
    assert found.late_shares["1 second"] == pytest.approx(3 / 8)
    assert found.late_shares["1 minute"] == pytest.approx(1 / 8)
    assert found.late_shares["5 minutes"] == 0
    # Another run: what it measures is there while it goes on, and counts once.
    monkeypatch.setattr(running, "SAVED_EVERY_S", 0.1)
    write(tmp_path, 4, 400, 290)  # behind 300: 10 s
    run = pipeline(tmp_path).start()
    try:
        await_rows(run, tmp_path, 10)
        write(tmp_path, 5, 500, 500)
        await_rows(run, tmp_path, 12)
    finally:
        run.stop()
    assert (found_in(tmp_path).rows, found_in(tmp_path).max_ms) == (12, 100_000)
    assert found_in(tmp_path).late_shares["1 second"] == pytest.approx(4 / 12)
