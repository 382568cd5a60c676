"""`sql`, `doctor` and `console` as a shell calls them; none of them starts Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headwater.cli.main import main
from headwater.events import BatchCompleted, PipelineStarted, QueryStarted
from headwater.runtime.history import HistoryWriter, history_folder

APP = """
from headwater import Pipeline
from headwater.connectors import rate

{name} = Pipeline("{name}")
{name}.source("ticks", rate())
{name}.sql("hot", "SELECT * FROM ticks", trigger="1 second")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    name = f"app_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(APP.format(name=name))
    (tmp_path / "headwater.toml").write_text(f'app = "{name}.py"\n')
    monkeypatch.chdir(tmp_path)
    table = pa.table({"device": ["a", "b", "a"], "celsius": [20.5, 1.0, 30.0]})
    write_deltalake(str(tmp_path / ".headwater" / name / "tables" / "hot"), table)
    return tmp_path


def name_of(project: Path) -> str:
    return next(project.glob("app_*.py")).stem


ENDLESS = "SELECT count(*) FROM range(100000000) a, range(100000) b"
QUESTION = "SELECT device, count(*) AS n FROM hot GROUP BY device ORDER BY device"


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("table", "device  n\na       2\nb       1\n"),
        ("csv", "device,n\na,2\nb,1\n"),
        ("json", '[\n {\n  "device": "a",\n  "n": 2\n },\n {\n  "device": "b",\n  "n": 1\n }\n]\n'),
    ],
)
@pytest.mark.usefixtures("project")
def test_an_answer_has_the_format_that_was_asked_for(
    capsys: pytest.CaptureFixture[str], format: str, expected: str
) -> None:
    assert main(["sql", QUESTION, "--format", format]) == 0
    assert capsys.readouterr().out == expected


def test_the_application_may_be_named_first(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", f"{name_of(project)}.py", "SELECT max(celsius) AS top FROM hot"]) == 0
    assert capsys.readouterr().out.split() == ["top", "30.0"]


@pytest.mark.usefixtures("project")
def test_a_cut_answer_says_so_beside_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "SELECT * FROM hot", "--rows", "2", "--format", "csv"]) == 0
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 3
    assert "only the first 2 rows" in told.err


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["DROP TABLE hot"], 2, "SQL_REFUSED"),
        (["SELECT celsiu FROM hot"], 2, "SQL_FAILED"),
        (["SELECT * FROM hott"], 2, "UNKNOWN_TABLE"),
        (["SELECT * FROM ticks"], 2, "NOT_STORED"),
        (["SELECT * FROM hot__late"], 2, "NOTHING_WRITTEN"),
        (["SELECT device FROM hot", "--format", "plot"], 2, "NOTHING_TO_PLOT"),
        (["a", "SELECT 1", "b"], 2, "OPTIONS_CONFLICT"),
        (["SELECT 1", "--rows", "0"], 2, "USAGE"),
        (
            ["SELECT count(*) FROM range(100000000) a, range(100000) b", "--timeout", "1s"],
            1,
            "SQL_TI",
        ),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_mistake_has_a_code_and_nothing_on_standard_output(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, error: str
) -> None:
    assert main(["sql", *arguments]) == code
    told = capsys.readouterr()
    assert error in told.err
    assert told.out == ""


def write_history(project: Path, duration_ms: int) -> None:
    writer = HistoryWriter(history_folder(project / ".headwater", name_of(project)))
    writer.start()
    writer.report(PipelineStarted("app", ("hot",)))
    writer.report(QueryStarted("hot", "id", "run", None))
    for n in range(10):
        at = f"2026-01-01T12:00:{n:02}.000Z"
        batch = BatchCompleted("hot", n, at, 10, 10.0, 10.0, duration_ms, state_partitions=200)
        writer.report(batch)
    writer.close()


def test_the_doctor_speaks_from_the_history(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_history(project, 500)
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert "hot: 8 batches looked at" in told
    assert "hot: its state is in 200 partitions" in told
    assert "  setting   shuffle_partitions = " in told
    assert main(["doctor", "--json"]) == 0
    [said] = json.loads(capsys.readouterr().out)
    assert said["rule"] == "too_many_partitions"


@pytest.mark.usefixtures("project")
def test_the_doctor_needs_a_history(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 2
    assert "NO_HISTORY" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_a_console_needs_folders_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "flet"]) == 2
    assert "FOLDER_MISSING" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_a_supervised_run_does_not_begin_anew_at_every_restart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--supervise", "--fresh"]) == 2
    told = capsys.readouterr().err
    assert "OPTIONS_CONFLICT" in told
    assert "headwater run --fresh --available-now, then headwater run --supervise" in told


@pytest.mark.parametrize("option", ["--metrics", "--console", "--connect"])
@pytest.mark.usefixtures("project")
def test_a_batch_run_serves_nothing(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["run", "--batch", option, "0"]) == 2
    assert "OPTIONS_CONFLICT" in capsys.readouterr().err
