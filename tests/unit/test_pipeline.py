from pathlib import Path

import pytest

from headwater import Pipeline, Trigger
from headwater.connectors import console, rate
from headwater.definitions import Guarantee, OnReject, OutputMode, Source, Table
from headwater.errors import (
    DefinitionError,
    DuplicateName,
    InvalidDuration,
    InvalidName,
    UnknownChoice,
    UnknownOption,
)

HERE = str(Path(__file__))


def test_a_declaration_knows_the_users_file_and_line() -> None:
    app = Pipeline("app")
    handle = app.source("ticks", rate())
    location = handle.definition.location
    assert location.file == HERE
    assert "app.source(" in Path(HERE).read_text().splitlines()[location.line - 1]


def test_a_decorated_function_stays_callable_with_its_own_signature() -> None:
    app = Pipeline("app")

    @app.table(into=console())
    def doubled(ticks: int) -> int:  # type: ignore[type-var]
        """Twice."""
        return ticks * 2

    assert doubled(21) == 42
    assert doubled.name == "doubled"
    assert doubled.__doc__ == "Twice."


def test_strings_become_types_once() -> None:
    app = Pipeline("app")

    @app.table(key="device", mode="update", trigger="1 second", guarantee="at_least_once")
    def latest(ticks): ...  # type: ignore[no-untyped-def]

    table = app.definitions().tables["latest"]
    assert table.key == ("device",)
    assert table.mode is OutputMode.UPDATE
    assert table.trigger == Trigger.processing_time("1 second")
    assert table.guarantee is Guarantee.AT_LEAST_ONCE


def test_a_handle_may_stand_for_a_name() -> None:
    app = Pipeline("app")
    ticks = app.source("ticks", rate())

    @app.table(name="copy_of_ticks", reads={"rows": ticks})
    def copied(rows): ...  # type: ignore[no-untyped-def]

    assert app.definitions().tables["copy_of_ticks"].reads == {"rows": "ticks"}


def test_include_takes_over_the_declarations_of_another_module() -> None:
    shared, app = Pipeline("shared"), Pipeline("app")
    shared.source("ticks", rate())
    app.include(shared)
    assert isinstance(app.definitions().by_name["ticks"], Source)


def test_a_name_is_declared_once() -> None:
    app = Pipeline("app")
    first = app.source("ticks", rate())
    with pytest.raises(DuplicateName) as caught:
        app.source("ticks", rate())
    assert str(first.definition.location) in str(caught.value)


@pytest.mark.parametrize("name", ["", "1st", "a b", "a__late", "_x", "a-b"])
def test_a_name_that_could_clash_with_our_own_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        Pipeline("app").source(name, rate())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"watermark": "a while", "event_time": "timestamp"}, InvalidDuration),
        ({"on_reject": "explode"}, UnknownChoice),
        ({"max_per_batch": "lots"}, DefinitionError),
    ],
)
def test_a_wrong_argument_names_the_users_line(
    arguments: dict[str, str], error: type[DefinitionError]
) -> None:
    with pytest.raises(error) as caught:
        Pipeline("app").source("ticks", rate(), **arguments)  # type: ignore[arg-type]
    assert caught.value.where is not None
    assert caught.value.where.file == HERE


def test_sql_takes_the_arguments_of_a_table() -> None:
    app = Pipeline("app")
    app.sql("evens", "select * from ticks where value % 2 = 0", mode="append", into=console())
    table = app.definitions().tables["evens"]
    assert isinstance(table, Table)
    assert table.mode is OutputMode.APPEND


def test_an_unknown_argument_names_the_nearest_and_the_line() -> None:
    with pytest.raises(UnknownOption, match="trigger") as caught:
        Pipeline("app").sql("evens", "select 1", triger="1 second")
    assert caught.value.where is not None
    assert caught.value.where.file == HERE


def test_on_reject_captures_by_default() -> None:
    app = Pipeline("app")
    app.source("ticks", rate())
    assert app.definitions().sources["ticks"].on_reject is OnReject.CAPTURE
