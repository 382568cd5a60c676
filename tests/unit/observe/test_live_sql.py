from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headwater import Pipeline
from headwater.connectors import csv, json, memory, rate
from headwater.errors import (
    HeadwaterError,
    NothingWritten,
    NotRunning,
    NotStored,
    SqlFailed,
    SqlRefused,
    SqlTimeout,
    SqlTooLarge,
    UnknownTable,
)
from headwater.observe.datasets import table_data
from headwater.observe.live_sql import Answer, SparkRows, answer
from headwater.settings import Settings

READINGS = pa.table(
    {
        "device": ["a", "b", "a", None],
        "at": pa.array([0, 60_000_000, 120_000_000, None], pa.timestamp("us", "UTC")),
        "celsius": [20.0, 21.5, 22.0, 1.0],
    }
)


def ask(text: str, **limits: Any) -> Answer:
    return answer(text, {"readings": READINGS}.__getitem__, ["readings"], **limits)


def test_a_question_in_sparks_sql_is_answered() -> None:
    found = ask(
        "SELECT device, count(*) AS n, max(at) AS last FROM Readings "
        "WHERE device IS NOT NULL GROUP BY device ORDER BY device"
    )
    assert found.columns == ("device", "n", "last")
    assert [row[:2] for row in found.rows] == [("a", 2), ("b", 1)]
    assert found.rows[0][2].isoformat() == "1970-01-01T00:02:00+00:00"


def test_functions_of_spark_are_translated() -> None:
    found = ask("SELECT date_format(at, 'yyyy-MM-dd HH:mm') AS m, nvl(device, '-') FROM readings")
    assert found.rows[1] == ("1970-01-01 00:01", "b")
    assert found.rows[3] == (None, "-")


def test_a_common_table_expression_is_no_table_of_the_pipeline() -> None:
    found = ask("WITH hot AS (SELECT * FROM readings WHERE celsius > 20) SELECT count(*) FROM hot")
    assert found.rows == ((2,),)


def test_rows_are_limited_and_the_answer_says_so() -> None:
    assert (len(ask("SELECT * FROM readings", rows=3).rows)) == 3
    assert ask("SELECT * FROM readings", rows=3).is_cut
    assert not ask("SELECT * FROM readings", rows=4).is_cut


def test_two_columns_of_one_name_are_both_shown() -> None:
    assert ask("SELECT celsius, celsius FROM readings").columns == ("celsius", "celsius_1")


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE readings",
        "INSERT INTO readings VALUES (1)",
        "CREATE TABLE x AS SELECT * FROM readings",
        "DELETE FROM readings",
        "SET enable_external_access = true",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE readings",
        "",
    ],
)
def test_what_is_no_question_is_refused(text: str) -> None:
    with pytest.raises(SqlRefused):
        ask(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM other.readings",
        "SELECT getenv('HOME') FROM readings",
    ],
)
def test_nothing_outside_the_tables_can_be_reached(text: str) -> None:
    with pytest.raises(HeadwaterError):
        ask(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT celsiu FROM readings", "celsiu"),
        ("SELEC * FROM readings", "line 1"),
        ("SELECT nosuch(celsius) FROM readings", "nosuch"),
    ],
)
def test_a_mistake_is_told_in_a_line(text: str, found: str) -> None:
    with pytest.raises((SqlFailed, SqlRefused)) as problem:
        ask(text)
    assert found.lower() in str(problem.value).lower()
    assert "\x1b" not in str(problem.value)


def test_a_question_that_takes_too_long_is_ended() -> None:
    endless = "SELECT count(*) FROM range(100000000) a CROSS JOIN range(1000000) b"
    with pytest.raises(SqlTimeout):
        ask(endless, timeout_s=0.3)


def test_a_question_that_takes_too_much_memory_is_ended() -> None:
    huge = "SELECT a.id, collect_list(a.id) OVER (PARTITION BY 1) FROM range(100000000) AS a(id)"
    with pytest.raises((SqlTooLarge, SqlTimeout)):
        ask(huge, timeout_s=20)


# Rows that only Spark can read


def parts(text: str) -> tuple[list[str], Answer]:
    """The questions that Spark was asked, and the answer made of its answers."""
    heard: list[str] = []

    def spark(question: str, rows: int) -> pa.Table:
        heard.append(question)
        found = ask(question, rows=rows)
        return pa.table(
            [list(column) for column in zip(*found.rows, strict=True)], names=found.columns
        )

    data = {"readings": SparkRows("readings", spark), "disk": READINGS}
    return heard, answer(text, data.__getitem__, list(data))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("SELECT max(celsius) FROM readings", ["SELECT MAX(celsius) FROM readings"]),
        (
            "WITH w AS (SELECT * FROM readings WHERE celsius > 20) SELECT max(celsius) FROM w",
            ["WITH w AS (SELECT * FROM readings WHERE celsius > 20) SELECT MAX(celsius) FROM w"],
        ),
        (
            "SELECT max(r.celsius) FROM (SELECT * FROM readings WHERE celsius > 20) r "
            "JOIN disk USING (device)",
            ["SELECT * FROM readings WHERE celsius > 20"],
        ),
        (
            "WITH w AS (SELECT * FROM readings) SELECT max(w.celsius) FROM w CROSS JOIN disk AS d "
            "WHERE w.device = d.device",
            ["SELECT * FROM readings"],
        ),
        (
            "SELECT max(celsius) FROM disk d WHERE celsius > "
            "(SELECT min(celsius) FROM readings r WHERE r.device = d.device)",
            ["SELECT * FROM readings"],
        ),
        ("SELECT list_max(collect_list(celsius)) FROM readings", ["SELECT * FROM readings"]),
    ],
)
def test_spark_is_asked_the_plain_parts_of_a_question(text: str, asked: list[str]) -> None:
    heard, found = parts(text)
    assert heard == asked
    assert found.rows == ((22.0,),)


# Tables of a pipeline


def pipeline(folder: Path) -> Pipeline:
    app = Pipeline("app", settings=Settings(folder=folder))
    app.source("ticks", rate())
    app.sql("managed", "SELECT * FROM ticks")
    app.sql("lines", "SELECT * FROM ticks", into=csv("out"))
    app.sql("objects", "SELECT * FROM ticks", into=json("never"))
    app.sql("here", "SELECT * FROM ticks", into=memory())
    return app


def data(folder: Path, name: str) -> Any:
    app = pipeline(folder)
    return table_data(app.definitions(), app.settings, name)


def test_managed_and_side_tables_are_read_where_they_are(tmp_path: Path) -> None:
    tables = tmp_path / ".headwater" / "app" / "tables"
    for name in ("managed", "managed__late"):
        write_deltalake(str(tables / name), READINGS)
        found = answer(f"SELECT count(*) FROM {name}", lambda table: data(tmp_path, table), [name])
        assert found.rows == ((4,),)


def test_files_count_when_a_batch_committed_them(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-0.csv").write_text("value,name\n1,x\n2,y\n")
    found = answer("SELECT sum(value) FROM lines", lambda t: data(tmp_path, t), ["lines"])
    assert found.rows[0][0] == 3


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("managed", NothingWritten),
        ("objects", NothingWritten),
        ("managed__late", NothingWritten),
        ("here", NotRunning),
        ("ticks", NotStored),
        ("manged", UnknownTable),
    ],
)
def test_what_cannot_be_read_says_why(
    tmp_path: Path, name: str, problem: type[HeadwaterError]
) -> None:
    with pytest.raises(problem):
        data(tmp_path, name)
