"""`verify --crash` with a real driver and real sinks: exact where exactly once is promised, and
rows twice where it is not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.local import services
from headwater.settings import Connection

pytestmark = pytest.mark.timeout(1800)
EXAMPLE = Path(__file__).parents[2] / "examples/every_sink"
TABLES = ("delta_update", "kafka_append")
"""With and without state, late rows, a Python worker and a server; `bench crashes` has all sinks in
all modes."""
CONTROL = """
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json, kafka

app = Pipeline("control")
app.source("readings", json("data"), schema="id long")
into = kafka("control", create=True)
app.table(name="plain", into=into, guarantee="at_least_once")(lambda readings: readings)
"""


@pytest.fixture
def project(
    tmp_path: Path,
    kafka_connection: Connection,
    postgres_connection: Connection,
    mariadb_folder: Path,
    redis_connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """The example with every sink, and where its servers are."""
    folder = tmp_path / "every_sink"
    shutil.copytree(EXAMPLE, folder)
    mariadb = Connection("mariadb", services.connection(mariadb_folder, "mariadb"), "services up")
    lines = ['app = "app.py"', "[profile.local]", 'driver_memory = "1g"']
    for connection in (kafka_connection, postgres_connection, mariadb, redis_connection):
        lines.append(f"[profile.local.connections.{connection.name}]")
        for name in connection.options:
            value = connection.require(name)
            if name == "password":
                variable = f"CRASH_{connection.name.upper()}"
                monkeypatch.setenv(variable, value)
                value = f"env:{variable}"
            lines.append(f"{name} = {json.dumps(value)}")
    (folder / "headwater.toml").write_text("\n".join(lines) + "\n")
    return folder


def test_crashes_at_every_pair_of_sink_mode_point_and_kind_leave_the_sinks_exact(
    project: Path, start: Callable[..., Any]
) -> None:
    tables = [argument for name in TABLES for argument in ("--table", name)]
    options = ("--crash", "--cover", *tables, "--results", "results.json")
    run = start("verify", *options, folder=project)
    run.process.wait(timeout=1500)
    assert run.end() == 0, run.output
    found = json.loads((project / "results.json").read_text())
    assert found["is_exact"]
    crashes = [crash for one in found["rounds"] for crash in one["crashes"]]
    reached = [crash for crash in crashes if crash["batch"] is not None]
    assert {crash["sink"] for crash in reached} == {"delta", "kafka"}, run.output
    assert {crash["mode"] for crash in reached} == {"append", "update"}, run.output
    # Which moments of a batch are met is a matter of the machine's pace: most are.
    assert len(reached) > len(crashes) / 2, run.output
    assert {"driver", "sink connection", "python worker"} <= {crash["kind"] for crash in reached}, (
        run.output
    )


def test_a_sink_without_a_ledger_shows_rows_twice(project: Path, start: Callable[..., Any]) -> None:
    (project / "app.py").write_text(CONTROL)
    run = start("verify", "--crash", "--all", folder=project)
    run.process.wait(timeout=800)
    assert run.end() == 1, run.output
    found = json.loads((project / "crash-matrix.json").read_text())
    assert not found["is_exact"]
    assert found["rounds"][-1]["missing"] == {}, run.output
    assert list(found["rounds"][-1]["twice"]) == ["plain"], run.output
    assert "seed 0" in run.output
