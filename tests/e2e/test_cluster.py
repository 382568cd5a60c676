"""The same definition on a real standalone cluster, while parts of it are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from deltalake import DeltaTable

from headwater.cli import main
from headwater.connectors.kafka import create_topic
from headwater.local import services
from headwater.local.cluster import start_worker
from headwater.settings import Connection

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
SETTINGS = """
[profile.cluster.spark]
"spark.executor.heartbeatInterval" = "5s"
"spark.network.timeout" = "45s"
"spark.network.timeoutInterval" = "15s"
"""
FILES, ROWS = 60, 10


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "rules.py").write_text(RULES)
    (tmp_path / "headwater.toml").write_text(SETTINGS)
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


def at_work(home: Path) -> list[int]:
    """Executors that have run a task of `raw`: one that is starting has no Python worker yet, and
    a driver that does not know it cannot give it up."""
    return [
        e
        for e in executors(home)
        if subprocess.run(["pgrep", "-P", str(e)], stdout=subprocess.DEVNULL).returncode == 0
    ]


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
    run = start("run", *cluster, "--for", "20m")
    run.until_true(lambda: commits(project, "raw") >= 1)

    # An executor dies: its tasks run again on the other.
    before = commits(project, "raw")
    os.kill(at_work(home)[0], signal.SIGKILL)
    run.until_true(lambda: commits(project, "raw") > before)

    # An executor hangs: it is given up after `spark.network.timeout`, and another takes its tasks.
    run.until_true(lambda: bool(at_work(home)))
    hanging = at_work(home)[0]
    os.kill(hanging, signal.SIGSTOP)
    try:
        run.until_true(lambda: not Path(f"/proc/{hanging}").exists())
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(hanging, signal.SIGCONT)
    before = commits(project, "raw")
    run.until_true(lambda: commits(project, "raw") > before)

    # A worker dies for good, and another one joins.
    os.kill(parts["workers"][0], signal.SIGKILL)
    port = int(services.address(project / ".headwater", "spark").rsplit(":", 1)[1])  # type: ignore[union-attr]
    joined = start_worker(home, port, 7)
    try:
        run.until_true(lambda: bool(executors(home / "work/7")))
        before = commits(project, "raw")
        assert before < FILES - 1
        # The driver dies in the middle of a batch.
        run.process.kill()
        run.end()
        # What is left is read at once, as long as it takes: the kills are over.
        (project / "headwater.toml").unlink()
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


PASSING = """
from headwater import Pipeline
from headwater.connectors import kafka

app = Pipeline("app")
app.source("records", kafka("{topic}"))
app.table(
    name="passed",
    into=kafka("{out}"),
    trigger="continuous 1 second",
    guarantee="at_least_once",
)(lambda records: records.select("value"))
"""
BROKER = """
[profile.cluster.connections.kafka]
bootstrap_servers = "{servers}"
"""


def send(servers: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in numbers:
        producer.produce(topic, str(number).encode())
    assert producer.flush(60) == 0


class Values:
    """The numbers that have come to a topic of one partition."""

    def __init__(self, servers: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": topic})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self.seen: set[int] = set()

    def has(self, numbers: range) -> bool:
        records = self._consumer.consume(500, 0.5)
        self.seen |= {int(record.value()) for record in records if not record.error()}
        return self.seen >= set(numbers)


def test_a_continuous_query_goes_on_from_its_last_epoch(
    project: Path, start: Callable[..., Any], kafka_connection: Connection
) -> None:
    """Its tasks are never tried again: with its executor the query dies, and is started again."""
    topic, out = (f"t{uuid.uuid4().hex[:12]}" for _ in range(2))
    for name in (topic, out):
        create_topic(kafka_connection, name, partitions=1)
    servers = kafka_connection.require("bootstrap_servers")
    (project / "app.py").write_text(PASSING.format(topic=topic, out=out))
    (project / "headwater.toml").write_text(BROKER.format(servers=servers))
    values = Values(servers, out)
    send(servers, topic, range(50))
    master = services.connection(project / ".headwater", "spark")["master"]
    run = start("run", "--profile", "cluster", "--master", master, "--for", "20m")
    run.until_true(lambda: values.has(range(50)))

    for executor in executors(project / ".headwater/services/spark"):
        os.kill(executor, signal.SIGKILL)
    send(servers, topic, range(50, 100))
    run.until("restart 1 of 5")
    # Nothing is lost; what came since the last epoch may be there twice.
    run.until_true(lambda: values.has(range(100)))
    assert run.end(signal.SIGINT) == 0, run.output


BARE = """
import numpy
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json

app = Pipeline("app")
app.source("rows", json("in"), schema="id long")


@F.udf("string")
def origin(number):
    return numpy.__file__


app.table(name="raw")(lambda rows: rows.select("id", origin("id").alias("origin")))
"""
OTHER_PYTHON = """
[profile.cluster]
master = "{master}"
worker_python = "{python}"
"""


def test_workers_without_packages_get_those_of_the_driver(
    project: Path, start: Callable[..., Any]
) -> None:
    # The Python that the environment was made of has no packages, as a worker elsewhere.
    python = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    bare = subprocess.run([python, "-I", "-c", "import numpy"], capture_output=True, text=True)
    if bare.returncode == 0:
        pytest.skip("the Python of this machine has packages of its own")
    assert "No module named 'numpy'" in bare.stderr
    (project / "app.py").write_text(BARE)
    master = services.connection(project / ".headwater", "spark")["master"]
    (project / "headwater.toml").write_text(OTHER_PYTHON.format(master=master, python=python))
    run = start("run", "--profile", "cluster", "--master", master, "--available-now")
    assert run.end() == 0, run.output
    found = DeltaTable(str(project / ".headwater/app/tables/raw")).to_pyarrow_table()
    assert sorted(found["id"].to_pylist()) == list(range(FILES * ROWS))
    work = project / ".headwater/services/spark/work"
    assert all(Path(place).is_relative_to(work) for place in found["origin"].to_pylist())


def test_profile_cluster_without_a_cluster_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(APP)
    monkeypatch.delenv("HEADWATER_MASTER", raising=False)
    assert main.main(["run", "--profile", "cluster"]) == 3
    assert "next      headwater services up spark" in capsys.readouterr().err
