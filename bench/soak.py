"""A pipeline of four sinks whose driver is killed again and again: nothing lost, nothing twice.

Not a ratio: the figures are rows that are missing and rows that are there twice, per sink, and the
number of crashes. Runs on its own Kafka broker and PostgreSQL server.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.figures import figure, store
from headwater.connectors.manifest import committed_files
from headwater.local import services
from headwater.local.processes import wait_until

if TYPE_CHECKING:
    import psycopg

APP = """
from pyspark.sql import DataFrame, functions as F

from headwater import Pipeline
from headwater.connectors import delta, json, kafka, parquet, postgres

app = Pipeline("soak")
app.source("rows", json("in"), schema="id long, device string", max_per_batch="20 files")
app.table(name="in_delta")(lambda rows: rows)
app.table(name="in_files", into=parquet("files"))(lambda rows: rows)
app.table(name="in_kafka", into=kafka("soak", create=True, partitions=2))(
    lambda rows: rows.select(F.col("id").cast("string").alias("value"))
)


@app.table(into=postgres("soak"), key="device", mode="update", unbounded_state=True)
def in_postgres(rows: DataFrame) -> DataFrame:
    return rows.groupBy("device").agg(F.count(F.lit(1)).alias("n"), F.sum("id").alias("total"))
"""
DEVICES = 7
ROWS_PER_FILE = 40
START_S = 180.0


@dataclass
class Outcome:
    """What a soak found: per sink how many rows were missing and how many were there twice."""

    crashes: int
    rows: int
    seed: int
    missing: dict[str, int] = field(default_factory=dict)
    twice: dict[str, int] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        return not any(self.missing.values()) and not any(self.twice.values())


class Feeder(threading.Thread):
    """Puts files with new rows into the folder until it is told to end."""

    def __init__(self, inbox: Path) -> None:
        super().__init__(daemon=True)
        self._inbox = inbox
        self._is_over = threading.Event()
        self.next_id = 0

    def run(self) -> None:
        while not self._is_over.wait(0.5):
            rows = range(self.next_id, self.next_id + ROWS_PER_FILE)
            lines = [json.dumps({"id": n, "device": f"d{n % DEVICES}"}) for n in rows]
            draft = self._inbox.parent / f".{self.next_id}.json"
            draft.write_text("\n".join(lines) + "\n")
            draft.rename(self._inbox / f"{self.next_id:09}.json")
            self.next_id += ROWS_PER_FILE

    def end(self) -> None:
        self._is_over.set()
        self.join()


def soak(
    folder: Path, *, crashes: int, for_s: float, after_s: tuple[float, float], seed: int
) -> Outcome:
    """Kills the driver until the crashes or the time are used up, each so long after the first
    batch of a recovery; then lets it finish and counts."""
    draw = random.Random(seed)
    (folder / "in").mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "headwater.toml").write_text('app = "app.py"\n')
    local = folder / ".headwater"
    services.up(local, "kafka")
    services.up(local, "postgres")
    feeder = Feeder(folder / "in")
    feeder.start()
    done, end = 0, time.monotonic() + for_s
    try:
        # Each at another moment of a batch.
        while done < crashes and time.monotonic() < end:
            _run_and_kill(folder, after_s=draw.uniform(*after_s))
            done += 1
        feeder.end()
        _finish(folder)
        outcome = Outcome(done, feeder.next_id, seed)
        _count(folder, outcome)
        return outcome
    finally:
        feeder.end()
        services.down(local, "kafka")
        services.down(local, "postgres")


def _command(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    with (folder / "run.log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "headwater.cli.main", *arguments],
            cwd=folder,
            env={**os.environ, "HEADWATER_MASTER": "local[2]"},
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def _kill(process: subprocess.Popen[str]) -> None:
    """The whole group: the driver, its JVM and its Python workers, as a machine that goes down."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _run_and_kill(folder: Path, *, after_s: float) -> None:
    commits = folder / ".headwater/soak/checkpoints/in_delta/commits"
    before = _newest(commits)
    process = _command(folder, "run")
    try:
        came = wait_until(
            lambda: _newest(commits) > before or process.poll() is not None, timeout_s=START_S
        )
        if not came or process.poll() is not None:
            log = (folder / "run.log").read_text()
            raise RuntimeError(f"the pipeline did not run: {log[-3000:]}")
        time.sleep(after_s)
    finally:
        _kill(process)


def _newest(commits: Path) -> int:
    numbers = [int(f.name) for f in commits.glob("[0-9]*")] if commits.is_dir() else []
    return max(numbers, default=-1)


def _finish(folder: Path) -> None:
    process = _command(folder, "run", "--available-now")
    try:
        if process.wait(timeout=600) != 0:
            raise RuntimeError(f"the last run failed: {(folder / 'run.log').read_text()[-3000:]}")
    finally:
        _kill(process)


def _count(folder: Path, outcome: Outcome) -> None:
    import pyarrow.dataset
    from confluent_kafka import Consumer, TopicPartition
    from deltalake import DeltaTable

    expected = Counter(range(outcome.rows))
    table = DeltaTable(str(folder / ".headwater/soak/tables/in_delta")).to_pyarrow_table()
    _compare(outcome, "delta", expected, Counter(table["id"].to_pylist()))

    listed = [str(file) for file in committed_files(folder / "files")]
    found = pyarrow.dataset.dataset(listed, format="parquet").to_table()
    _compare(outcome, "files", expected, Counter(found["id"].to_pylist()))

    address = services.connection(folder / ".headwater", "kafka")["bootstrap_servers"]
    consumer: Any = Consumer({"bootstrap.servers": address, "group.id": "count"})
    values: Counter[int] = Counter()
    for partition in (0, 1):
        place = TopicPartition("soak", partition, 0)
        _, last = consumer.get_watermark_offsets(place)
        consumer.assign([place])
        at = 0
        while at < last:
            for record in consumer.consume(1000, timeout=5):
                if record.error() is None:
                    values[int(record.value())] += 1
                    at = record.offset() + 1
    consumer.close()
    _compare(outcome, "kafka", expected, values)

    with postgres_of(folder / ".headwater") as database:
        rows = database.execute("SELECT device, n, total FROM soak").fetchall()
    wanted: dict[str, tuple[int, int]] = {}
    for number in range(outcome.rows):
        n, total = wanted.get(f"d{number % DEVICES}", (0, 0))
        wanted[f"d{number % DEVICES}"] = (n + 1, total + number)
    counts = {device: (int(n), int(total)) for device, n, total in rows}
    short = {
        d: wanted[d][0] - counts.get(d, (0, 0))[0] for d in wanted if counts.get(d) != wanted[d]
    }
    outcome.missing["postgres"] = sum(max(n, 0) for n in short.values())
    outcome.twice["postgres"] = sum(max(-n, 0) for n in short.values())
    if short and not any(short.values()):
        outcome.missing["postgres"] = len(short)


def postgres_of(local: Path) -> psycopg.Connection:
    """A connection to the server that runs in a folder."""
    import psycopg

    login = services.connection(local, "postgres")
    password = Path(login["password"].removeprefix("file:")).read_text().strip()
    url = login["url"].removeprefix("jdbc:")
    return psycopg.connect(url, user=login["user"], password=password)


def _compare(outcome: Outcome, sink: str, expected: Counter[int], found: Counter[int]) -> None:
    outcome.missing[sink] = sum((expected - found).values())
    outcome.twice[sink] = sum((found - expected).values())


def main(arguments: list[str]) -> int:
    """`python -m bench.soak MINUTES SEED`: prints what it found and stores it."""
    minutes = float(arguments[0]) if arguments else 30
    seed = int(arguments[1]) if len(arguments) > 1 else 1
    # Not below a folder that only root may pass through: PostgreSQL runs as another user.
    folder = Path(tempfile.mkdtemp(prefix="headwater-soak-"))
    folder.chmod(0o755)
    try:
        outcome = soak(folder, crashes=10_000, for_s=minutes * 60, after_s=(15, 25), seed=seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"{outcome.crashes} crashes, {outcome.rows:,} rows, seed {seed}: "
        f"missing {outcome.missing}, twice {outcome.twice}"
    )
    keep(outcome, minutes)
    return 0 if outcome.is_exact else 1


def keep(outcome: Outcome, minutes: float) -> None:
    """Stores what a soak found."""
    lost, again = sum(outcome.missing.values()), sum(outcome.twice.values())
    figures = [
        figure(f"rows missing after {outcome.crashes} crashes", [lost], 0, at_least=False),
        figure(f"rows twice after {outcome.crashes} crashes", [again], 0, at_least=False),
    ]
    store("soak", figures, vars(outcome) | {"minutes": minutes})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
