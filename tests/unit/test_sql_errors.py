"""Wrong statements: where, what was found, what was expected, the nearest right word."""

from __future__ import annotations

import pytest

from headwater.errors import DefinitionError, DuplicateName
from headwater.sql import parse

T = "CREATE STREAMING TABLE t "
S = "CREATE STREAMING SOURCE s "
ANY = " AS SELECT * FROM s"

# statement -> code, column, a part of the text
WRONG = {
    "CRATE VIEW v" + ANY: ("SQL_SYNTAX", 1, "did you mean CREATE STREAMING SOURCE"),
    "SELECT * FROM s": ("SQL_SYNTAX", 1, "CREATE STREAMING TABLE name AS SELECT"),
    "CREATE STREEMING TABLE t" + ANY: ("SQL_SYNTAX", 8, "STREAMING TABLE"),
    "CREATE STREAMING TABEL t" + ANY: ("SQL_SYNTAX", 18, "did you mean TABLE?"),
    "CREATE TABLE t" + ANY: ("SQL_SYNTAX", 8, "write CREATE STREAMING TABLE"),
    "CREATE OR REPLACE VIEW v" + ANY: ("SQL_SYNTAX", 8, "leave OR REPLACE out"),
    "CREATE VIEW IF NOT EXISTS v" + ANY: ("SQL_SYNTAX", 13, "leave IF NOT EXISTS out"),
    "CREATE TEMPORARY VEIW v" + ANY: ("SQL_SYNTAX", 18, "did you mean VIEW?"),
    "CREATE MATERIALIZED TABLE v" + ANY: ("SQL_SYNTAX", 21, "VIEW"),
    "CREATE LOKUP l USING csv": ("SQL_SYNTAX", 8, "did you mean LOOKUP?"),
    "CREATE VIEW AS": ("SQL_SYNTAX", 15, "AS"),
    "CREATE VIEW 'v'" + ANY: ("SQL_SYNTAX", 13, "the name of the view"),
    "CREATE VIEW v KEY (a)" + ANY: ("SQL_SYNTAX", 15, "AS"),
    "CREATE VIEW v AS": ("SQL_SYNTAX", 17, "a query"),
    "CREATE VIEW v AS SELEKT 1": ("SQL_SYNTAX", 18, "did you mean SELECT?"),
    T + "USING console" + ANY: ("SQL_SYNTAX", 26, "the sink of a table is spelled INTO"),
    T + "TRIGER '1 second'" + ANY: ("SQL_SYNTAX", 26, "did you mean TRIGGER?"),
    T + "TRIGGER 1 second" + ANY: ("SQL_SYNTAX", 34, "a trigger, such as '1 second'"),
    T + "TRIGGER '1 parsec'" + ANY: ("INVALID_DURATION", 34, "1 parsec"),
    T + "MODE updat" + ANY: ("UNKNOWN_CHOICE", 31, "did you mean 'update'?"),
    T + "GUARANTEE EXACTLY TWICE" + ANY: ("SQL_SYNTAX", 36, "EXACTLY ONCE, AT LEAST ONCE"),
    T + "KEY a" + ANY: ("SQL_SYNTAX", 30, "'('"),
    T + "KEY ()" + ANY: ("SQL_SYNTAX", 31, "the name of a key column"),
    T + "KEY (a) KEY (b)" + ANY: ("SQL_SYNTAX", 34, "KEY stands twice"),
    T + "INTO consol" + ANY: ("UNKNOWN_CHOICE", 31, "did you mean 'console'?"),
    T + "INTO console OPTIONS (row = 1)" + ANY: ("UNKNOWN_OPTION", 48, "did you mean 'rows'?"),
    T + "INTO console OPTIONS (rows = 'x')" + ANY: ("INVALID_OPTION", 48, "a whole number"),
    T + "INTO console OPTIONS (truncate = 3)" + ANY: ("INVALID_OPTION", 48, "TRUE or FALSE"),
    T + "INTO console OPTIONS (rows = rows)" + ANY: ("SQL_SYNTAX", 55, "a value"),
    T + "INTO console OPTIONS (rows = 1L)" + ANY: ("SQL_SYNTAX", 55, "a number such as 10"),
    T + "INTO console OPTIONS (rows 1 2)" + ANY: ("SQL_SYNTAX", 55, "',' or ')'"),
    T + "INTO console OPTIONS (rows 1, rows 2)" + ANY: ("SQL_SYNTAX", 61, "stands twice"),
    T + "INTO csv" + ANY: ("OPTION_MISSING", 31, "add OPTIONS (path = '…')"),
    "CREATE MATERIALIZED VIEW m MODE append" + ANY: ("SQL_SYNTAX", 28, "one of: INTO"),
    S: ("SQL_SYNTAX", None, "does not say where its rows are"),
    S + "(a strng) USING rate": ("INVALID_SCHEMA", 27, "did you mean string?"),
    S + "(a string USING rate": ("SQL_SYNTAX", 27, "never closed"),
    S + "USING rate WATERMARK at DELAY 1 HOUR": ("SQL_SYNTAX", 57, "OF"),
    S + "USING rate WATERMARK at DELAY OF 1 HOUR": ("SQL_SYNTAX", 60, "INTERVAL"),
    S + "USING rate WATERMARK at DELAY OF INTERVAL x HOUR": ("SQL_SYNTAX", 69, "10 MINUTES"),
    S + "USING rate WATERMARK at DELAY OF INTERVAL 1 HUOR": ("SQL_SYNTAX", 71, "HOURS"),
    S + "USING rate EVENT TIME a WATERMARK a DELAY OF INTERVAL 1 DAY": (
        "SQL_SYNTAX",
        None,
        "leave EVENT TIME out",
    ),
    S + "USING rate MAX PER BATCH many": ("SQL_SYNTAX", 52, "'50 files'"),
    S + "USING rate MAX PER BATCH '9 lines'": ("INVALID_LIMIT", 52, "9 lines"),
    S + "USING rate ON REJECT ignore": ("UNKNOWN_CHOICE", 48, "capture, fail"),
    S + "USING rate OPTIONS (start = 'noon')": ("INVALID_OPTION", 47, "a time such as"),
    "CREATE VIEW v AS SELECT 'x": ("SQL_SYNTAX", 25, "a closing '"),
}


@pytest.mark.parametrize("statement", WRONG)
def test_a_wrong_statement_says_where_what_and_what_instead(statement: str) -> None:
    code, column, part = WRONG[statement]
    with pytest.raises(DefinitionError) as caught:
        parse(f"\n{statement}", file="app.sql")
    error = caught.value
    assert error.code == code
    assert (error.where.file, error.where.line) == ("app.sql", 2)  # type: ignore[union-attr]
    assert getattr(error.where, "column", None) == column
    assert part in str(error)


def test_a_name_stands_once_in_a_file() -> None:
    twice = "CREATE VIEW v AS TABLE s;\nCREATE VIEW v AS TABLE s"
    with pytest.raises(DuplicateName) as caught:
        parse(twice, file="app.sql")
    assert str(caught.value.where) == "app.sql:2"
    assert caught.value.found == "the first declaration is at app.sql:1"


def test_a_connector_that_refuses_its_options_is_shown_at_its_place() -> None:
    text = "\n\nCREATE STREAMING SOURCE s USING rate OPTIONS (rows_per_second = -1)"
    with pytest.raises(DefinitionError) as caught:
        parse(text, file="app.sql")
    assert str(caught.value.where) == "app.sql:3:33"
