"""Status, stop and show as a second process sees a project."""

import datetime as dt
import json
import threading
from pathlib import Path

import pytest

from headwater.cli import main
from headwater.cli.status import run_lines, table_line
from headwater.runtime.ownership import Ownership

APP = """
from headwater import Pipeline
from headwater.connectors import console, json, memory
one = Pipeline("one")
one.source("ticks", json("in"), schema="value long")
one.sql("even", "SELECT * FROM ticks")
one.sql("seen", "SELECT * FROM ticks", into=memory())
one.sql("told", "SELECT * FROM ticks", into=console())
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def owned(project: Path) -> Ownership:
    ownership = Ownership(project / ".headwater", "one")
    ownership.take()
    ownership.publish(port=1, app="app.py", tables=("even", "seen"))
    return ownership


def test_a_folder_where_nothing_ran_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["status"]) == 0
    assert "No pipeline was started" in capsys.readouterr().out


def test_a_stopped_pipeline_tells_its_last_batches(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owned(project).release({"even": 7, "seen": None}, {})
    assert main.main(["status"]) == 0
    told = capsys.readouterr().out
    assert "one (app.py): stopped" in told
    assert "even: stopped, batch 7" in told
    assert "seen: stopped, no batch" in told


def test_one_can_wait_for_the_end_so_long_and_no_longer(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ownership = owned(project)
    assert main.main(["status", "--wait", "200ms"]) != 0
    assert "STILL_RUNNING" in capsys.readouterr().err
    ending = threading.Timer(0.3, lambda: ownership.release({"even": 7}, {}))
    ending.start()
    assert main.main(["status", "--wait", "60s"]) == 0
    ending.join()
    assert "even: stopped, batch 7" in capsys.readouterr().out


def test_a_crashed_pipeline_is_told_from_its_checkpoint(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owned(project).let_go()
    commits = project / ".headwater/one/checkpoints/even/commits"
    commits.mkdir(parents=True)
    (commits / "4").touch()
    assert main.main(["status", "--json"]) == 1
    [run] = json.loads(capsys.readouterr().out)
    assert run["state"] == "crashed"
    assert [table["last_batch"] for table in run["tables"]] == [4, None]


def test_a_failed_table_is_told_with_its_error(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owned(project).release({"even": 7, "seen": 1}, {"even": "app.py:3: QUERY_FAILED: no"})
    assert main.main(["status"]) == 1
    assert "app.py:3: QUERY_FAILED: no" in capsys.readouterr().out


def test_a_stopped_pipeline_tells_how_and_when_every_table_ended(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moment = dt.datetime(2026, 1, 1, 12, 0, 3).astimezone().isoformat()
    failed = {"state": "failed", "since": moment, "reason": "QUERY_FAILED: away; no restart: why"}
    stopped = {"state": "stopped", "since": moment, "reason": "on request"}
    changes = {
        name: {**change, "next_try": None}
        for name, change in {"even": failed, "seen": stopped}.items()
    }
    owned(project).release({"even": 7, "seen": 1}, {"even": "QUERY_FAILED: x"}, changes)
    assert main.main(["status"]) == 1
    told = capsys.readouterr().out
    assert "even: failed since 2026-01-01 12:00:03, batch 7" in told
    assert "even: QUERY_FAILED: away; no restart: why" in told
    assert "seen: stopped since 2026-01-01 12:00:03, batch 1" in told
    assert main.main(["status", "--json"]) == 1
    [run] = json.loads(capsys.readouterr().out)
    assert {table["table"]: table["reason"] for table in run["tables"]} == {
        "even": failed["reason"],
        "seen": "on request",
    }


def test_a_table_that_restarts_tells_when(project: Path) -> None:
    moments = [dt.datetime(2026, 1, 1, 12, 0, s).astimezone().isoformat() for s in (3, 7)]
    table = {
        "table": "even",
        "state": "restarting",
        "since": moments[0],
        "reason": "restart 1 of 5: QUERY_FAILED: away",
        "next_try": moments[1],
        "last_batch": 4,
    }
    run = {"pipeline": "one", "app": None, "state": "running", "pid": 1, "started_at": 0.0}
    lines = run_lines({**run, "ended_at": None, "tables": [table]})
    assert lines[1:] == [
        "  even: restarting since 2026-01-01 12:00:03, batch 4",
        "    even: restart 1 of 5: QUERY_FAILED: away",
        "    even: next try at 2026-01-01 12:00:07",
    ]


def test_a_process_that_does_not_answer_is_told(project: Path) -> None:
    ownership = owned(project)
    try:
        assert main.main(["stop"]) == 3
        assert main.main(["status"]) == 0
    finally:
        ownership.let_go()


def test_nothing_to_stop_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["stop"]) == 0
    assert "Nothing runs" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["stop", "even"], ["restart", "even"], ["status", "even"]])
def test_a_table_that_does_not_run_cannot_be_asked(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(command) == 2
    assert "NOT_RUNNING" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "code", "told"),
    [
        ("evn", 2, "did you mean 'even'?"),
        ("even", 0, "nothing was written yet"),
        ("ticks__rejected", 0, "nothing was written yet"),
        ("seen", 2, "NOT_RUNNING"),
        ("told", 2, "ROWS_NOT_KEPT"),
    ],
)
def test_show_says_what_there_is_not(
    table: str, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["show", table]) == code
    captured = capsys.readouterr()
    assert told in captured.out + captured.err


def test_a_running_table_is_one_line() -> None:
    progress = {
        "batchId": 3,
        "timestamp": "2026-01-01T12:00:00.000Z",
        "numInputRows": 10,
        "inputRowsPerSecond": 5.0,
        "processedRowsPerSecond": 20.0,
        "eventTime": {"watermark": "2026-01-01T11:50:00.000Z"},
        "stateOperators": [{"numRowsTotal": 2}],
    }
    table = {"table": "even", "state": "running", "last_batch": 3, "progress": progress}
    table["late"] = {"rows": 10, "late": 1, "late_windows": 1}
    assert table_line(table) == (
        "even: running, batch 3, 5.0 rows/s in, 20 rows/s processed, watermark 11:50:00, "
        "state 2 rows, late 1"
    )


def test_a_run_that_is_starting_promises_nothing() -> None:
    run = {"pipeline": "one", "app": None, "state": "starting", "pid": 1, "started_at": 0.0}
    assert len(run_lines({**run, "ended_at": None, "tables": []})) == 1
