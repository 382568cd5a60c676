"""A stranger's way through the command line, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.local.processes import wait_until
from headwater.observe.rows import delta_rows

pytestmark = pytest.mark.timeout(1200)

WAIT_S = 600.0


def rows(project: Path, table: str) -> list[tuple[Any, ...]]:
    found = delta_rows(f"{project}/.headwater/{project.name}/tables/{table}", 10_000)
    return [] if found is None else sorted(found.rows)


def numbers(project: Path, folder: str) -> list[int]:
    path = project / ".headwater" / project.name / "checkpoints" / folder
    return sorted(int(entry.name) for entry in path.iterdir() if entry.name.isdigit())


def processes_of(project: Path) -> list[int]:
    """Processes whose command line names the project: its JVM's does."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if f"{project}/.headwater" in line:
                found.append(int(entry.name))
    return found


def add_file(project: Path, name: str, *readings: tuple[str, str, float]) -> None:
    lines = [json.dumps({"device": d, "at": at, "celsius": c}) for d, at, c in readings]
    draft = project / f".{name}"
    draft.write_text("\n".join(lines) + "\n")
    draft.rename(project / "data" / name)


def test_a_new_application_runs_is_watched_stopped_crashed_and_resumed(
    tmp_path: Path, start: Callable[..., Any], finish: Callable[..., Any]
) -> None:
    finish("new", "myapp", folder=tmp_path)
    project = tmp_path / "myapp"

    run = start("run", folder=project)
    run.until("first rows of hot:")
    run.until("first rows of device_minutes:")
    [told] = json.loads(finish("status", "--json", folder=project).output)
    assert (told["pipeline"], told["state"]) == ("myapp", "running")
    assert {table["state"] for table in told["tables"]} == {"running"}
    assert "PIPELINE_OWNED" in finish("run", "--once", folder=project, code=2).output

    assert "stopped after batch" in finish("stop", "hot", folder=project).output
    add_file(project, "3.json", ("a", "2026-01-01T12:04:00Z", 40.0))
    assert "hot: running" in finish("restart", "hot", folder=project).output
    assert wait_until(lambda: len(rows(project, "hot")) == 5, timeout_s=WAIT_S)
    assert "40.0" in finish("show", "hot", folder=project).output
    assert "hot: running" in finish("status", "hot", folder=project).output

    assert run.end(signal.SIGTERM) == 0, run.output
    assert "resume: headwater run app.py" in run.output
    assert numbers(project, "hot/offsets")[-1] == numbers(project, "hot/commits")[-1]
    assert wait_until(lambda: processes_of(project) == [], timeout_s=120)
    assert "stopped at" in finish("status", folder=project).output

    second = start("run", folder=project)
    second.until("hot: resumed after batch")
    add_file(project, "4.json", ("b", "2026-01-01T12:05:00Z", 41.0))
    assert wait_until(lambda: len(rows(project, "hot")) == 6, timeout_s=WAIT_S)
    second.end(signal.SIGKILL)
    assert "crashed" in finish("status", folder=project, code=1).output

    add_file(project, "5.json", ("c", "2026-01-01T12:06:00Z", 42.0), ("c", "soon", 1.0))
    last = finish("run", "--available-now", folder=project)
    assert "signals: 1 record rejected" in last.output
    celsius = sorted(row[2] for row in rows(project, "hot"))
    assert celsius == [30.5, 31.0, 32.0, 33.0, 40.0, 41.0, 42.0]
    assert sum(row[3] for row in rows(project, "device_minutes")) == 11
    assert "soon" in finish("show", "signals__rejected", folder=project).output


FAILING = """
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json

app = Pipeline("failing")
app.source("numbers", json("data"), schema="n long", max_per_batch="1 file")


@F.udf("long")
def inverse(n):
    return 100 // n


@app.table
def inverses(numbers):
    return numbers.select("n", inverse("n").alias("inverse"))


@app.table
def plain(numbers):
    return numbers


@app.table(into=json("doubled"))
def doubled(numbers):
    return numbers.select((F.col("n") * 2).alias("n"))
"""


def test_a_failing_function_shows_its_line_and_the_others_go_on(
    tmp_path: Path, start: Callable[..., Any], finish: Callable[..., Any]
) -> None:
    # With a blank in the path: Java's options are split at blanks.
    project = tmp_path / "two words" / "failing"
    (project / "data").mkdir(parents=True)
    (project / "app.py").write_text(FAILING)
    for number, content in enumerate([5, 0, 7]):
        (project / f"data/{number}.json").write_text(f'{{"n": {content}}}\n')
        os.utime(project / f"data/{number}.json", (1000 + number, 1000 + number))

    run = start("run", folder=project)
    run.until("QUERY_FAILED")
    assert wait_until(lambda: len(rows(project, "plain")) == 3, timeout_s=WAIT_S)
    assert "failed" in finish("status", folder=project, code=1).output
    assert "failing: stopped" in finish("stop", folder=project).output

    assert run.end() == 1
    line = 1 + FAILING.splitlines().index("    return 100 // n")
    assert f"{project / 'app.py'}:{line}: QUERY_FAILED" in run.output
    assert "ZeroDivisionError" in run.output
    assert "Traceback" not in run.output
    assert rows(project, "inverses") == [(5, 20)]
    assert "doubled: 3 rows" in finish("show", "doubled", folder=project).output

    (project / "data/1.json").write_text('{"n": 1}\n')
    fresh = finish("run", "--available-now", "--fresh", folder=project)
    assert f"{project}/.headwater/failing/aside/" in fresh.output
    assert rows(project, "inverses") == [(1, 100), (5, 20), (7, 14)]
    assert sorted(rows(project, "plain")) == [(1,), (5,), (7,)]


def test_a_new_application_is_tested_and_verified(
    tmp_path: Path, finish: Callable[..., Any]
) -> None:
    finish("new", "myapp", folder=tmp_path)
    project = tmp_path / "myapp"
    assert "1 passed" in finish("test", folder=project).output
    wrong = finish("verify", "--input", "signals=missing.json", folder=project, code=2)
    assert "OPTIONS_CONFLICT" in wrong.output
    told = finish("verify", "--crash", "--for", "5s", "--report", "html", folder=project).output
    assert "input: 8 rows of signals" in told
    assert "every law holds" in told
    assert "Every law holds" in (project / "verify.html").read_text()


RECOVERING = """
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json

app = Pipeline("recovering")
app.source("rows", json("in"), schema="at timestamp, n long", event_time="at", watermark="1 minute")


@app.table(key="hour", mode="update")
def hours(rows):
    counted = rows.groupBy(F.window("at", "1 hour")).agg(F.sum(F.col("n") * 1).alias("total"))
    return counted.select(F.hour("window.start").alias("hour"), "window.start", "total")
"""
ONE_AFTER_THE_OTHER = """
import json, sys
from headwater.cli.main import main
for line in sys.stdin:
    print("exit code", main(json.loads(line)), flush=True)
"""


class Prompt:
    """Takes command lines one after the other; they share a JVM, which saves its start."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", ONE_AFTER_THE_OTHER],
            cwd=folder,
            env={**os.environ, "HEADWATER_MASTER": "local[2]"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __call__(self, line: str, code: int = 0) -> str:
        """What the command prints before it ends with this code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(line.split())}\n")
        self.process.stdin.flush()
        told = ""
        for part in self.process.stdout:
            if part.startswith("exit code "):
                assert part == f"exit code {code}\n", told
                return told
            told += part
        raise AssertionError(told)


@pytest.fixture
def headwater(tmp_path: Path) -> Iterator[Prompt]:
    project = tmp_path / "recovering"
    (project / "in").mkdir(parents=True)
    (project / "app.py").write_text(RECOVERING)
    prompt = Prompt(project)
    with prompt.process:
        yield prompt
        assert prompt.process.stdin is not None
        prompt.process.stdin.close()


def give(project: Path, *moments: str) -> None:
    lines = [json.dumps({"at": f"2026-01-01T{moment}:00Z", "n": 1}) for moment in moments]
    # Not the moment: Hadoop takes no colon in a name.
    number = len(list((project / "in").iterdir()))
    (project / "in" / f"{number}.json").write_text("\n".join(lines) + "\n")


def totals(project: Path) -> dict[int, int]:
    return {hour: total for hour, _, total in rows(project, "hours")}


def query_id(project: Path) -> str:
    metadata = project / ".headwater/recovering/checkpoints/hours/metadata"
    return str(json.loads(metadata.read_text())["id"])


def test_a_pipeline_goes_back_and_is_corrected_by_commands(
    tmp_path: Path, headwater: Prompt
) -> None:
    project = tmp_path / "recovering"
    give(project, "10:00", "11:00", "11:30", "12:00")
    headwater("run --available-now")
    assert "hours: batch 1, delta table" in headwater("savepoint create first")
    give(project, "14:00")
    headwater("run --available-now")
    before, old = query_id(project), {10: 1, 11: 2, 12: 1, 14: 1}
    assert totals(project) == old

    assert "first  " in headwater("savepoint list")
    assert "hours: resumes after batch 1" in headwater("savepoint restore first")
    assert totals(project) == {10: 1, 11: 2, 12: 1}
    assert query_id(project) != before
    headwater("run --available-now")
    assert totals(project) == old

    (project / "app.py").write_text(RECOVERING.replace("* 1", "* 10"))
    told = headwater("backfill hours --from 2026-01-01T11:00 --to 2026-01-01T12:00")
    assert "hours: 1 rows with start in the range" in told
    assert totals(project) == old | {11: 20}
    assert "hours: made anew up to batch" in headwater("rebuild app.py hours")
    assert totals(project) == {10: 10, 11: 20, 12: 10, 14: 10}

    assert "bytes on disk in 2 partitions" in headwater("state app.py hours")
    assert "hours: 3 partitions of state from batch" in headwater("state hours --partitions 3")
    give(project, "14:30")
    headwater("run --available-now --shuffle-partitions 3")
    assert totals(project)[14] == 20
    told = headwater("state app.py hours")
    assert "bytes on disk in 3 partitions" in told
    assert '"sum":20' in told
    assert "UNKNOWN_TABLE" in headwater("state app.py days", code=2)
