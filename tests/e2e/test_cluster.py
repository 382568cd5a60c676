"""The same definition on a real standalone cluster, while parts of it are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headwater.cli import main
from headwater.local import services
from headwater.local.cluster import alive_workers, start_worker
from headwater.local.processes import wait_until

APP = """
from pyspark.sql import DataFrame, functions as F

import rules
from headwater import Pipeline
from headwater.connectors import json

app = Pipeline("app")
parity = F.udf(rules.parity, "string")
app.source("rows", json("in"), schema="id long", max_per_batch="1 file")
app.table(name="raw")(lambda rows: rows.select("id", parity("id").alias("parity")))


@app.table(key="third", mode="update", unbounded_state=True)
def thirds(rows: DataFrame) -> DataFrame:
    return rows.groupBy((F.col("id") % 3).alias("third")).count()
"""
RULES = """
import time


def parity(number):
    time.sleep(0.02)
    return "even" if number % 2 == 0 else "odd"
"""
FILES, ROWS = 18, 20
WAIT_S = 600.0


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "rules.py").write_text(RULES)
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        rows = range(number * ROWS, (number + 1) * ROWS)
        lines = "".join(json.dumps({"id": n}) + "\n" for n in rows)
        (tmp_path / "in" / f"{number:03}.json").write_text(lines)
    services.shape_cluster(tmp_path / ".headwater", workers=2)
    services.up(tmp_path / ".headwater", "spark")
    yield tmp_path
    services.down(tmp_path / ".headwater", "spark")


def executors(home: Path) -> list[int]:
    """Executors of the cluster below `home`, by their working folders."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            folder = place.readlink()
            line = (place.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).startswith(str(home)) and b"CoarseGrainedExecutorBackend" in line:
            found.append(int(place.parent.name))
    return found


def commits(project: Path, table: str) -> int:
    folder = project / ".headwater/app/checkpoints" / table / "commits"
    return max((int(f.name) for f in folder.glob("[0-9]*")), default=-1)


def test_kills_in_a_cluster_change_nothing_and_leave_no_process(
    project: Path, start: Callable[..., Any]
) -> None:
    home = project / ".headwater/services/spark"
    parts = json.loads((home / "processes.json").read_text())
    # The flag wins over the master that tests have in their environment.
    master = services.connection(project / ".headwater", "spark")["master"]
    cluster = ("--profile", "cluster", "--master", master)
    run = start("run", *cluster, "--for", "10m")
    assert wait_until(lambda: commits(project, "raw") >= 1, timeout_s=WAIT_S), run.output

    # An executor dies: its tasks run again on the other.
    before = commits(project, "raw")
    os.kill(executors(home)[0], signal.SIGKILL)
    assert wait_until(lambda: commits(project, "raw") > before, timeout_s=WAIT_S), run.output

    # A worker dies for good, and another one joins.
    os.kill(parts["workers"][0], signal.SIGKILL)
    port = int(services.address(project / ".headwater", "spark").rsplit(":", 1)[1])  # type: ignore[union-attr]
    joined = start_worker(home, port, 7)
    try:
        assert wait_until(lambda: alive_workers(home) >= 2, timeout_s=WAIT_S)
        before = commits(project, "raw")
        assert before < FILES - 1
        # The driver dies in the middle of a batch.
        run.process.kill()
        run.end()
        # What is left is read at once: the kills are over.
        (project / "app.py").write_text(APP.replace("1 file", f"{FILES} files"))
        again = start("run", *cluster, "--available-now")
        assert again.end() == 0, again.output
    finally:
        joined.send_signal(signal.SIGTERM)
        joined.wait(timeout=120)
    ids = DeltaTable(str(project / ".headwater/app/tables/raw")).to_pyarrow_table()["id"]
    assert sorted(ids.to_pylist()) == list(range(FILES * ROWS))
    thirds = DeltaTable(str(project / ".headwater/app/tables/thirds")).to_pyarrow_table()
    assert thirds["count"].to_pylist() == [FILES * ROWS // 3] * 3

    services.down(project / ".headwater", "spark")
    for pid in [parts["master"], *parts["workers"]]:
        found = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True
        )
        assert found.stdout.strip() in ("", "Z")


def test_profile_cluster_without_a_cluster_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(APP)
    monkeypatch.delenv("HEADWATER_MASTER", raising=False)
    assert main.main(["run", "--profile", "cluster"]) == 3
    assert "next      headwater services up spark" in capsys.readouterr().err
