"""`verify --crash` with a real driver and real sinks; a table that is only at-least-once must show
its rows twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.settings import Connection

APP = """
import json as jsonlib
from pathlib import Path

from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import foreach_batch, json, kafka, postgres, redis

app = Pipeline("matrix")
app.source(
    "rows",
    json("data"),
    schema="id long, device string, at timestamp",
    event_time="at",
    watermark="1 minute",
)
STORED = Path("stored.json")


@F.udf("string")
def shout(text):
    return text.upper()


@app.table(into=kafka("crash_ids", create=True))
def in_kafka(rows):
    return rows.select(F.concat_ws(" ", "id", shout("device")).alias("value"))


@app.table(into=postgres("crash_minutes"), key=["device", "minute"], mode="update")
def in_postgres(rows):
    counted = rows.groupBy(F.window("at", "1 minute"), "device").agg(F.sum("id").alias("total"))
    return counted.select("device", F.col("window.start").alias("minute"), "total")


@app.table(into=redis("crash_devices"), key="device", mode="update", unbounded_state=True)
def in_redis(rows):
    return rows.groupBy("device").agg(F.count("id").alias("n"))


def store(frame, batch):
    with STORED.open("a") as file:
        for row in frame.collect():
            file.write(jsonlib.dumps({"id": row.id}) + "\\n")


CONTROL = foreach_batch(
    store,
    read=lambda spark: spark.read.schema("id long").json(str(STORED)),
    clear=lambda: STORED.write_text(""),
)
app.table(name="control", into=CONTROL)(lambda rows: rows.select("id"))
"""
SEED = "136139"
"""Draws: control before its commit, in_kafka before its commit, the connection of in_postgres, and
the Python worker of in_kafka."""


def test_crashes_leave_exactly_once_sinks_exact_and_show_the_control_twice(
    tmp_path: Path,
    start: Callable[..., Any],
    kafka_connection: Connection,
    postgres_connection: Connection,
    redis_connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CRASH_PASSWORD", postgres_connection.require("password"))
    monkeypatch.setenv("CRASH_REDIS", redis_connection.require("password"))
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "headwater.toml").write_text(
        "[profile.local]\n"
        'driver_memory = "1g"\n'
        "[profile.local.connections.kafka]\n"
        f'bootstrap_servers = "{kafka_connection.require("bootstrap_servers")}"\n'
        "[profile.local.connections.redis]\n"
        f'url = "{redis_connection.require("url")}"\n'
        'password = "env:CRASH_REDIS"\n'
        "[profile.local.connections.postgres]\n"
        f'url = "{postgres_connection.require("url")}"\n'
        f'user = "{postgres_connection.require("user")}"\n'
        'password = "env:CRASH_PASSWORD"\n'
    )
    (tmp_path / "data").mkdir()
    # One row per batch; two are late.
    moments = ["12:00", "12:04", "12:08", "12:12", "12:01", "12:16"]
    moments += ["12:20", "12:24", "12:28", "12:03", "12:32", "12:36"]
    rows = [
        {"id": n, "device": f"d{n % 2}", "at": f"2026-01-01T{moment}:00Z"}
        for n, moment in enumerate(moments)
    ]
    (tmp_path / "data/rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--random", "1s", "--seed", SEED, "--results", "results.json")
    run = start("verify", "--crash", *options, folder=tmp_path)
    run.process.wait(timeout=800)
    assert run.end() == 1, run.output
    told = run.output
    assert (tmp_path / "results.json").exists(), told
    found = json.loads((tmp_path / "results.json").read_text())
    (only,) = found["rounds"]
    assert only["missing"] == {}, told
    assert list(only["twice"]) == ["control"], told
    crashes = {(c["table"], c["kind"], c["point"]): c["batch"] for c in only["crashes"]}
    assert crashes["control", "driver", "before the commit"] is not None
    assert crashes["in_kafka", "driver", "before the commit"] is not None
    assert sum(batch is not None for batch in crashes.values()) >= 3, told
    assert f"seed {SEED}" in told
