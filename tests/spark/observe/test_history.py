"""What a real run leaves behind for the console, the doctor and metrics."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json
from headwater.events import Event
from headwater.runtime.about import read_about
from headwater.runtime.history import history_folder, read_history
from headwater.settings import Settings

pytestmark = pytest.mark.usefixtures("spark")


def pipeline(folder: Path) -> Pipeline:
    app = Pipeline("app", settings=Settings(folder=folder))
    schema = "device string, at timestamp, celsius double"
    app.source("signals", json("in"), schema=schema, event_time="at", watermark="10 minutes")

    @app.table(mode="append")
    def minutes(signals: DataFrame) -> DataFrame:
        return signals.groupBy(F.window("at", "1 minute"), "device").count()

    return app


def write(folder: Path, name: str, minute: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    row = {"device": "a", "at": f"2026-01-01T12:{minute:02}:05Z", "celsius": 1.5}
    (folder / "in" / f"{name}.json").write_text(jsonlib.dumps(row) + "\n")


def test_every_event_of_every_run_is_in_the_history(tmp_path: Path) -> None:
    heard: list[Event] = []
    for run in range(2):
        write(tmp_path, f"{run}", run)
        pipeline(tmp_path).refresh(report=heard.append)
    folder = history_folder(tmp_path / ".headwater", "app")
    records = list(read_history(folder))
    kept = [event for event in heard if "Step" not in type(event).__name__]
    assert [r.kind for r in records] == [type(event).__name__ for event in kept]
    batches = [r.facts for r in records if r.kind == "BatchCompleted"]
    assert sum(b["input_rows"] for b in batches) == 2
    assert sum(n for b in batches for n in b["latency_rows"].values()) == 2
    assert all(b["state_partitions"] == 2 for b in batches)


def test_the_description_names_the_graph_and_the_choices(tmp_path: Path) -> None:
    write(tmp_path, "0", 0)
    pipeline(tmp_path).refresh()
    found = read_about(history_folder(tmp_path / ".headwater", "app"))
    assert found is not None
    signals, minutes = found["nodes"]
    assert (signals["kind"], signals["watermark"]) == ("source", "10 minutes")
    assert minutes["reads"] == ["signals"]
    assert minutes["mode"] == "append"
    assert minutes["place"]["kind"] == "delta"
    assert Path(minutes["place"]["path"]).is_dir()
    assert __file__ in minutes["where"]
