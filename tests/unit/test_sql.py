"""Python and SQL say the same: each definition written both ways gives equal frozen values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.connectors import console, csv, json, memory, queue, rate
from headwater.definitions import Definition, Late, SqlBody, Table
from headwater.errors import DuplicateName, NoPipeline
from headwater.pipeline import Pipeline
from headwater.sql import parse, parse_folder

SCHEMA = "device STRING NOT NULL, at Timestamp, celsius double, tags map<string, long>"


def declared(text: str) -> Definition:
    (definition,) = parse(text, file="app.sql")
    return definition


def from_python(kind: str, *positional: Any, **named: Any) -> Definition:
    app = Pipeline("app")
    getattr(app, kind)(*positional, **named)
    (definition,) = app.definitions().by_name.values()
    return definition


def test_a_source_is_the_same_in_python_and_sql() -> None:
    in_sql = declared(
        f"""CREATE STREAMING SOURCE signals ({SCHEMA})
            USING json OPTIONS (path = 'in', 'spark.maxFileAge' = '7d')
            WATERMARK at DELAY OF INTERVAL 10 MINUTES
            MAX AHEAD INTERVAL 5 MINUTES
            MAX PER BATCH '50 files'
            ON REJECT FAIL ON DATA LOSS SKIP"""
    )
    files = json("in", options={"maxFileAge": "7d"})
    times = {"event_time": "at", "watermark": "10 minutes", "max_ahead": "5 minutes"}
    limits = {"max_per_batch": "50 files", "on_reject": "fail", "on_data_loss": "skip"}
    assert in_sql == from_python("source", "signals", files, schema=SCHEMA, **times, **limits)


def test_an_event_time_without_a_watermark_is_the_same_in_python_and_sql() -> None:
    in_sql = declared("CREATE STREAMING SOURCE ticks USING rate EVENT TIME timestamp")
    assert in_sql == from_python("source", "ticks", rate(), event_time="timestamp")


def test_a_source_without_clauses_has_the_defaults_of_python() -> None:
    assert declared("CREATE STREAMING SOURCE ticks USING rate") == from_python(
        "source", "ticks", rate()
    )


def test_a_lookup_is_the_same_in_python_and_sql() -> None:
    in_sql = declared(
        "create lookup sites (device string, site string)"
        " using csv options (path 'sites.csv', header false) reload every interval 5 minutes"
    )
    sites = csv("sites.csv", header=False)
    columns = "device string, site string"
    assert in_sql == from_python("lookup", "sites", sites, schema=columns, reload="5 minutes")


@pytest.mark.parametrize("words", ["VIEW", "TEMPORARY VIEW", "TEMP VIEW"])
def test_a_view_is_the_same_in_python_and_sql(words: str) -> None:
    app = Pipeline("app")

    @app.view
    def hot(signals: Any) -> Any:
        return signals.where("celsius > 30")

    in_sql = declared(f"CREATE {words} hot AS SELECT * FROM signals WHERE celsius > 30")
    assert {"hot": in_sql} == dict(app.definitions().by_name)


def test_a_table_is_the_same_in_python_and_sql() -> None:
    in_sql = declared(
        """CREATE STREAMING TABLE minutes
           INTO console OPTIONS (rows = 5)
           KEY (device, `the minute`) ORDER BY (at)
           MODE UPDATE TRIGGER '1 second' GUARANTEE AT LEAST ONCE
           LATE 'refire 1 hour early 10 seconds' WATERMARKS MAXIMUM UNBOUNDED STATE
           AS SELECT * FROM signals"""
    )
    app = Pipeline("app")
    choices: dict[str, Any] = {
        "order_by": "at",
        "mode": "update",
        "trigger": "1 second",
        "guarantee": "at_least_once",
        "late": Late.refire("1 hour", early="10 seconds"),
        "watermarks": "maximum",
        "unbounded_state": True,
    }

    @app.table(into=console(rows=5), key=["device", "the minute"], **choices)
    def minutes(signals: Any) -> Any:
        return signals

    assert {"minutes": in_sql} == dict(app.definitions().by_name)


def test_a_sql_method_is_the_same_as_a_statement() -> None:
    select = "SELECT * FROM signals"
    in_sql = declared(f"CREATE STREAMING TABLE raw TRIGGER 'available now' AS {select}")
    in_python = from_python("sql", "raw", select, trigger="available now")
    assert in_sql == in_python
    assert isinstance(in_sql, Table)
    assert in_sql.body == SqlBody(select)


def test_a_materialized_view_is_a_table_in_complete_mode() -> None:
    view = declared("CREATE MATERIALIZED VIEW totals KEY (a) AS SELECT a, sum(b) FROM t GROUP BY a")
    table = declared("CREATE STREAMING TABLE totals KEY (a) MODE COMPLETE AS SELECT a FROM t")
    assert view == table
    assert view == from_python("sql", "totals", "SELECT a FROM t", key="a", mode="complete")


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_every_guarantee_has_its_words(guarantee: str) -> None:
    words = guarantee.upper().replace("_", " ")
    in_sql = declared(f"CREATE STREAMING TABLE t GUARANTEE {words} AS SELECT * FROM s")
    assert in_sql == from_python("sql", "t", "SELECT * FROM s", guarantee=guarantee)


@pytest.mark.parametrize(
    "trigger",
    ["default", "1 second", "once", "available now", "continuous 1 second", "real time 5 seconds"],
)
def test_every_trigger_is_the_same_text(trigger: str) -> None:
    in_sql = declared(f"CREATE STREAMING TABLE t TRIGGER '{trigger}' AS SELECT * FROM s")
    assert in_sql == from_python("sql", "t", "SELECT * FROM s", trigger=trigger)


@pytest.mark.parametrize(
    ("interval", "duration"),
    [
        ("10 MINUTES", "10 minutes"),
        ("'1' MINUTE", "1 minute"),
        ("1 HOUR 30 MINUTES", "90 minutes"),
        ("500 milliseconds", "500 milliseconds"),
    ],
)
def test_an_interval_is_a_duration_in_words(interval: str, duration: str) -> None:
    in_sql = declared(
        f"CREATE STREAMING SOURCE s USING rate WATERMARK timestamp DELAY OF INTERVAL {interval}"
    )
    times = {"event_time": "timestamp", "watermark": duration}
    assert in_sql == from_python("source", "s", rate(), **times)


@pytest.mark.parametrize(("sql", "python"), [("5", 5), ("'64 MB'", "64 MB"), ("'9 rows'", 9)])
def test_an_amount_per_batch_is_a_number_or_a_text(sql: str, python: int | str) -> None:
    in_sql = declared(f"CREATE STREAMING SOURCE s USING rate MAX PER BATCH {sql}")
    assert in_sql == from_python("source", "s", rate(), max_per_batch=python)


def test_rows_stand_in_sql_as_lists() -> None:
    one = declared("CREATE LOOKUP l (a string, n int) USING memory OPTIONS (rows = (('x', -1),))")
    assert one == from_python("lookup", "l", memory(rows=[("x", -1)]), schema="a string, n int")
    two = declared(
        "CREATE STREAMING SOURCE s (n int) USING queue OPTIONS (batches = (((1)), ((2), (3))))"
    )
    assert two == from_python("source", "s", queue([[(1,)], [(2,), (3,)]]), schema="n int")


def test_clauses_stand_in_any_order() -> None:
    one = "CREATE STREAMING TABLE t MODE update KEY (a) TRIGGER '1 s' AS SELECT a FROM s"
    other = "CREATE STREAMING TABLE t TRIGGER '1 s' KEY (a) MODE UPDATE AS SELECT a FROM s"
    assert declared(one) == declared(other)


def test_every_statement_knows_its_line() -> None:
    text = (
        "-- first\n\nCREATE VIEW a AS\n  SELECT * FROM s; /* b;\n */ CREATE VIEW b\nAS TABLE a;;\n"
    )
    found = parse(text, file="app.sql")
    assert [(d.name, str(d.location)) for d in found] == [("a", "app.sql:3"), ("b", "app.sql:5")]


def test_semicolons_in_strings_comments_and_names_end_nothing() -> None:
    select = "SELECT ';', \"a;b\", `x;y` -- no; end\nFROM s"
    (view,) = parse(f"CREATE VIEW v AS {select}; -- last;", file="app.sql")
    assert view.body.text == select  # type: ignore[union-attr]


def test_a_folder_of_sql_files_is_an_application(tmp_path: Path) -> None:
    (tmp_path / "b.sql").write_text("CREATE VIEW two AS SELECT * FROM one")
    (tmp_path / "a.sql").write_text("CREATE STREAMING SOURCE one USING rate;")
    (tmp_path / "notes.txt").write_text("no SQL")
    found = parse_folder(tmp_path)
    assert [d.name for d in found] == ["one", "two"]
    assert found[1].location.file == str(tmp_path / "b.sql")


def test_a_name_stands_once_in_a_folder(tmp_path: Path) -> None:
    for file in ("a.sql", "b.sql"):
        (tmp_path / file).write_text("CREATE STREAMING SOURCE one USING rate;")
    with pytest.raises(DuplicateName) as caught:
        parse_folder(tmp_path)
    assert caught.value.where.file == str(tmp_path / "b.sql")  # type: ignore[union-attr]
    assert "a.sql:1" in str(caught.value)


def test_a_folder_without_sql_holds_no_pipeline(tmp_path: Path) -> None:
    with pytest.raises(NoPipeline):
        parse_folder(tmp_path)
