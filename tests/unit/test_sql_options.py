"""OPTIONS call the connector's own function, typed by its signature."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.connectors import (
    custom,
    foreach,
    foreach_batch,
    jdbc,
    kafka,
    mariadb,
    postgres,
    rate,
    redis,
    socket,
)
from headwater.connectors.interface import Connector
from headwater.definitions import Source
from headwater.errors import AppImportFailed, DefinitionError, InvalidOption, UnknownOption
from headwater.sql import parse

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SAME: dict[str, Connector] = {
    "kafka OPTIONS (topics = 'a')": kafka("a"),
    "kafka OPTIONS (topics = ('a', 'b'))": kafka("a", "b"),
    "kafka OPTIONS (pattern = 'a.*', create = TRUE, partitions = 3)": kafka(
        pattern="a.*", create=True, partitions=3
    ),
    "kafka OPTIONS ('assign.a.b' = (0, 1), assign.c = 2)": kafka(assign={"a.b": [0, 1], "c": [2]}),
    "kafka OPTIONS (topics 'a', starting 'latest')": kafka("a", starting="latest"),
    "kafka OPTIONS (topics 'a', starting '2026-01-01T12:00:00+00:00')": kafka("a", starting=NOON),
    "kafka OPTIONS (topics 'a', 'starting.0' = 42)": kafka("a", starting={0: 42}),
    "kafka OPTIONS (topics 'a', 'ending.a.0' 4, 'ending.b.c.1' 5)": kafka(
        "a", ending={"a": {0: 4}, "b.c": {1: 5}}
    ),
    "kafka OPTIONS (topics 'a', fields TRUE)": kafka("a", fields=True),
    "kafka OPTIONS (topics 'a', fields 'key')": kafka("a", fields=["key"]),
    "kafka OPTIONS (topics 'a', connection 'c', spark.minPartitions 8)": kafka(
        "a", connection="c", options={"minPartitions": 8}
    ),
    "socket OPTIONS (host = 'h', port = '9999', timestamp = 'true')": socket(
        "h", 9999, timestamp=True
    ),
    "rate OPTIONS (rows_per_batch 5, start '2026-01-01T12:00:00+00:00')": rate(
        rows_per_batch=5, start=NOON
    ),
    "jdbc OPTIONS (table 't', connection 'c')": jdbc("t", connection="c"),
    "postgres OPTIONS (table = 't', connection = NULL)": postgres("t"),
    "mariadb OPTIONS (table 't')": mariadb("t"),
    "redis OPTIONS (prefix 't', connection 'c')": redis("t", connection="c"),
    "foreach OPTIONS (target = 'builtins:print')": foreach(print),
    "foreach_batch OPTIONS (function = 'builtins:print')": foreach_batch(print),
}


def connector(text: str, file: str = "app.sql") -> Connector:
    (source,) = parse(f"CREATE STREAMING SOURCE s USING {text}", file=file)
    assert isinstance(source, Source)
    return source.connector


@pytest.mark.parametrize("text", SAME)
def test_options_call_the_same_function_as_python(text: str) -> None:
    assert connector(text) == SAME[text]


@pytest.mark.parametrize(
    ("text", "error", "part"),
    [
        ("kafka OPTIONS (topic = 'a')", UnknownOption, "did you mean 'topics'?"),
        ("kafka OPTIONS (options = 'a')", UnknownOption, "'spark.…'"),
        ("kafka OPTIONS (topics = TRUE)", InvalidOption, "text in quotes"),
        ("kafka OPTIONS (partitions = ('a'))", InvalidOption, "cannot be a list"),
        ("kafka OPTIONS (create = NULL)", InvalidOption, "cannot be NULL"),
        ("kafka OPTIONS (topics 'a', pattern 'b')", DefinitionError, "exclude each other"),
        ("foreach OPTIONS (target = 'builtins:prnt')", InvalidOption, "'module:name'"),
        ("foreach OPTIONS (target = 'nowhere:f')", InvalidOption, "'module:name'"),
        ("foreach OPTIONS (target = 'print')", InvalidOption, "'module:name'"),
    ],
)
def test_a_wrong_option_is_refused_at_its_place(
    text: str, error: type[DefinitionError], part: str
) -> None:
    with pytest.raises(error) as caught:
        connector(text)
    assert part in str(caught.value)
    assert str(caught.value.where).startswith("app.sql:1:")


def test_a_class_is_found_beside_the_sql_file(tmp_path: Path) -> None:
    module = "weather_beside_the_file"
    (tmp_path / f"{module}.py").write_text("class W:\n    def name():\n        return 'w'\n")
    text = f"custom OPTIONS (source = '{module}:W', path = 'p', idempotent = TRUE)"
    found = connector(text, file=str(tmp_path / "app.sql"))
    assert found == custom(sys.modules[module].W, "p", idempotent=True)
    assert str(tmp_path) not in sys.path


def test_a_module_that_raises_shows_its_own_cause(tmp_path: Path) -> None:
    (tmp_path / "broken_beside_the_file.py").write_text("1 / 0")
    text = "foreach OPTIONS (target = 'broken_beside_the_file:f')"
    with pytest.raises(AppImportFailed) as caught:
        connector(text, file=str(tmp_path / "app.sql"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "division by zero" in str(caught.value)
