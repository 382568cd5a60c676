"""One definition, five ways of running it, equal results on the same input.

All ways run in one process, so that Spark's JVM starts once; the command line is called as a
user's shell would call it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headwater

pytestmark = pytest.mark.timeout(1200)

APP = """
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import csv, json

ways = Pipeline("ways")
ways.source("clicks", json("clicks"), schema="id long, user string, at timestamp",
            max_per_batch="1 file")
ways.lookup("users", csv("users.csv"), schema="user string, country string")


@ways.view
def known(clicks, users):
    return clicks.join(users, "user", "left")


@ways.table
def raw(known):
    return known


@ways.table(mode="complete", unbounded_state=True)
def by_country(known):
    return known.groupBy("country").agg(F.count("*").alias("clicks"))


@ways.table(key="user", mode="update", unbounded_state=True)
def by_user(clicks):
    return clicks.groupBy("user").agg(F.count("*").alias("clicks"), F.max("at").alias("last"))


@ways.table(into=json("evens"))
def evens(known):
    return known.where("id % 2 = 0").select("id", "country")
"""

DRIVER = """
import json, sys, threading, time
from pathlib import Path
from headwater.cli.app import load_app
from headwater.cli.main import main
from headwater.observe.tables import table_rows

TABLES = ["raw", "by_country", "by_user", "evens", "clicks__rejected"]
results = {}


def collect(way, storage):
    app = load_app("app.py", flags={"storage": storage})
    definitions = app.pipeline.definitions()
    found = {t: table_rows(definitions, app.settings, t, 1000) for t in TABLES}
    results[way] = {t: sorted([str(v) for v in row] for row in r.rows) for t, r in found.items()}
    Path("evens").exists() and Path("evens").rename(f"evens-{way}")


def rows(storage, table):
    app = load_app("app.py", flags={"storage": storage})
    found = table_rows(app.pipeline.definitions(), app.settings, table, 1000)
    return [] if found is None else found.rows


def wait_for(storage):
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        if all(len(rows(storage, t)) == n for t, n in {"raw": 6, "evens": 3}.items()) and sum(
            row[1] for row in rows(storage, "by_user")
        ) == 6 and sum(row[1] for row in rows(storage, "by_country")) == 6:
            break
        time.sleep(0.2)


def stop_when_done():
    wait_for("stream")
    main(["stop"])


for way in ("once", "available-now", "batch"):
    assert main(["run", f"--{way}", "--storage", way, "--master", "local[2]"]) == 0, way
    collect(way, way)
stopper = threading.Thread(target=stop_when_done)
stopper.start()
assert main(["run", "--storage", "stream", "--master", "local[2]"]) == 0
stopper.join()
collect("stream", "stream")

refused = main(["run", "--batch", "--storage", "stream", "--master", "local[2]"])
replaced = main(["run", "--batch", "--replace", "--storage", "stream", "--master", "local[2]"])
collect("replaced", "stream")

app = load_app("app.py", flags={"storage": "python", "master": "local[2]"}).pipeline
app.refresh()
collect("refresh", "python")
frames = app.batch()
results["python batch"] = {
    t: sorted([str(v) for v in row.values()] for row in frames[t].toArrow().to_pylist())
    for t in TABLES[:4]
}
app = load_app("app.py", flags={"storage": "started", "master": "local[2]"}).pipeline
run = app.start()
wait_for("started")
run.stop()
collect("python start", "started")
Path("results.json").write_text(json.dumps({"results": results, "codes": [refused, replaced]}))
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    project = tmp_path_factory.mktemp("ways")
    (project / "app.py").write_text(APP)
    (project / "driver.py").write_text(DRIVER)
    (project / "users.csv").write_text("user,country\nann,CH\nbob,DE\n")
    (project / "clicks").mkdir()
    clicks = [
        json.dumps({"id": number, "user": user, "at": f"2026-01-01T12:00:0{number}Z"})
        for number, user in enumerate(["ann", "bob", "ann", "cleo", "bob", "ann"])
    ]
    (project / "clicks/0.json").write_text("\n".join(clicks[:3]) + "\n")
    (project / "clicks/1.json").write_text("\n".join(['{"id": "x', *clicks[3:]]) + "\n")
    source = str(Path(headwater.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "driver.py"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((project / "results.json").read_text())
    return found


def test_every_way_gives_the_same_rows(outcome: dict[str, Any]) -> None:
    ways = dict(outcome["results"])
    expected = ways.pop("once")
    assert [len(expected[table]) for table in ("raw", "by_country", "by_user")] == [6, 3, 3]
    assert {"python batch", "python start", "stream", "batch", "available-now"} <= ways.keys()
    for way, tables in ways.items():
        shape = {name: rows for name, rows in tables.items() if name != "clicks__rejected"}
        assert shape == {name: expected[name] for name in shape}, way


def test_every_way_rejects_the_same_record(outcome: dict[str, Any]) -> None:
    for way, tables in outcome["results"].items():
        if way != "python batch":
            assert [row[1] for row in tables["clicks__rejected"]] == ['b\'{"id": "x\''], way


def test_a_batch_over_a_streams_table_needs_replace(outcome: dict[str, Any]) -> None:
    assert outcome["codes"] == [2, 0]
