"""Which names a SELECT reads, and the form in which it runs both ways."""

from __future__ import annotations

import pytest

from headwater.errors import Location, Position, SqlSyntax
from headwater.sql import select_body, tables_read

READS = {
    "SELECT * FROM a": "a",
    "SELECT * FROM a JOIN b USING (k) LEFT ANTI JOIN c ON a.x = c.x": "a b c",
    "SELECT * FROM a, b AS other": "a b",
    "SELECT (SELECT max(x) FROM a) FROM (SELECT * FROM b) WHERE y IN (SELECT y FROM c)": "a b c",
    "SELECT a FROM t UNION ALL (SELECT a FROM u) EXCEPT SELECT a FROM v": "t u v",
    "WITH a AS (SELECT * FROM b) SELECT * FROM a JOIN c": "b c",
    "WITH a AS (SELECT * FROM a), b AS (SELECT * FROM a) SELECT * FROM b": "a",
    "SELECT * FROM (WITH a AS (TABLE b) SELECT * FROM a) JOIN a": "a b",
    "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r": "",
    "SELECT * FROM STREAM a JOIN STREAM(b) AS c": "a b",
    "SELECT * FROM STREAM a WATERMARK at DELAY OF INTERVAL 10 MINUTES AS x, STREAM b": "a b",
    "SELECT * FROM (TABLE a) WATERMARK to_timestamp(t) AS at DELAY OF INTERVAL '1' DAY x": "a",
    "SELECT * FROM STREAM(a) WITH ('x' = '1') AS y": "a",
    "SELECT window(at, '1 minute') w FROM a GROUP BY window(at, '1 minute')": "a",
    "SELECT window.start FROM a GROUP BY window, device": "a",
    "SELECT sum(x) OVER w FROM a WINDOW w AS (PARTITION BY y)": "a",
    "SELECT word FROM a LATERAL VIEW explode(split(line, ' ')) t AS word": "a",
    "SELECT * FROM range(10), a": "a",
    "SELECT stream, watermark FROM t watermark": "t",
    "SELECT * FROM `my table`": "my table",
    "SELECT * FROM db.t": "db.t",
    "FROM a |> WHERE x > 1 |> JOIN b USING (k)": "a b",
    "TABLE a": "a",
    "SELECT * FROM stream": "stream",
    "TABLE a UNION ALL TABLE b": "a b",
    "WITH c AS (TABLE a) TABLE c": "a",
    "VALUES (1)": "",
}


@pytest.mark.parametrize("query", READS)
def test_a_query_reads_the_names_that_stand_as_tables(query: str) -> None:
    names = {"my table"} if "my table" in query else set(READS[query].split())
    assert tables_read(query) == names


@pytest.mark.parametrize(
    ("written", "runs"),
    [
        ("SELECT * FROM STREAM a", "SELECT * FROM        a"),
        ("SELECT * FROM STREAM(a) x", "SELECT * FROM        a  x"),
        ("SELECT * FROM a, STREAM b", "SELECT * FROM a,        b"),
        ("SELECT * FROM (STREAM a JOIN\nSTREAM b)", "SELECT * FROM (       a JOIN\n       b)"),
        ("SELECT a, stream b FROM c", "SELECT a, stream b FROM c"),
        ("SELECT stream(b) FROM stream", "SELECT stream(b) FROM stream"),
    ],
)
def test_a_body_runs_without_stream_and_keeps_every_place(written: str, runs: str) -> None:
    assert select_body(written).text == runs
    assert len(written) == len(runs)


def test_a_watermark_stays_in_the_body_for_spark() -> None:
    query = "SELECT * FROM a WATERMARK at DELAY OF INTERVAL 1 HOUR"
    assert select_body(query).text == query


WRONG = {
    "SELEC a FROM x": (1, "SELECT"),
    "SELECT a FROM x WEHRE a > 1": (23, "WHERE in place of WEHRE"),
    "SELECT a FRM x": (14, "FROM in place of FRM"),
    "SELECT a FROM x GRUOP BY a": (23, "GROUP in place of GRUOP"),
    "SELECT a FROM x JION y ON 1 = 1": (22, "JOIN in place of JION"),
    "SELECT (a FROM x": (11, "')'"),
    "SELECT a FROM x WHERE": (17, "what belongs to WHERE"),
    "SELECT a FROM x; SELECT 1": (16, "a single query"),
    "SELECT 'a FROM x": (8, "a closing '"),
    "SELECT a FROM x /* y": (17, "a closing */"),
    "SELECT a FROM `x": (15, "a closing `"),
    "SELECT a FROM x WATERMARK at DELAY INTERVAL 1 HOUR": (36, "OF"),
    "SELECT a FROM x WATERMARK at DELAY OF INTERVAL 1 MINITE": (50, "MINUTES"),
    "SELECT a FROM IDENTIFIER('x')": (1, "the table's name itself"),
    "": (1, "SELECT"),
}


@pytest.mark.parametrize("query", WRONG)
def test_a_wrong_query_names_its_place_and_what_was_expected(query: str) -> None:
    column, expected = WRONG[query]
    with pytest.raises(SqlSyntax) as caught:
        tables_read(query)
    assert caught.value.where == Position("<sql>", 1, column)
    assert expected in str(caught.value)
    assert caught.value.code == "SQL_SYNTAX"


def test_a_place_counts_from_where_the_query_begins() -> None:
    start = Position("app.sql", 10, 20)
    with pytest.raises(SqlSyntax) as first:
        tables_read("SELECT (a FROM x", where=start)
    assert str(first.value.where) == "app.sql:10:30"
    with pytest.raises(SqlSyntax) as third:
        tables_read("SELECT a\nFROM x\nWHERE (", where=start)
    assert str(third.value.where) == "app.sql:12:7"


def test_a_query_inside_python_names_the_python_line_and_its_own_place() -> None:
    with pytest.raises(SqlSyntax) as caught:
        tables_read("SELECT a\nFRM x", where=Location("app.py", 7))
    assert str(caught.value).startswith("app.py:7: SQL_SYNTAX")
    assert "line 2, column 5 of the statement" in str(caught.value)
