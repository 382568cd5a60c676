import argparse

import pytest

from headwater.cli import options
from headwater.cli.main import _parsed


@pytest.mark.parametrize(
    ("text", "seconds"), [("60s", 60), ("60", 60), ("2 minutes", 120), ("500ms", 0.5)]
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert options.seconds(text) == seconds


def test_a_wrong_duration_is_a_usage_error() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="soon"):
        options.seconds("soon")


def test_flags_become_settings() -> None:
    args = _parsed(["run", "--master", "local[1]", "--storage", "s", "--deadline", "5s"])
    given = {name: value for name, value in options.flags(args).items() if value is not None}
    assert given == {"master": "local[1]", "storage": "s", "stop_deadline_s": 5}


def test_ways_of_running_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _parsed(["run", "--once", "--batch"])
    assert "not allowed with" in capsys.readouterr().err


def test_fresh_takes_one_table_or_all() -> None:
    assert _parsed(["run", "--fresh"]).fresh == ""
    assert _parsed(["run", "--fresh", "raw"]).fresh == "raw"
    assert _parsed(["run"]).fresh is None


def test_tables_are_separated_by_commas() -> None:
    assert _parsed(["run", "--tables", "a, b"]).tables == ["a", "b"]


@pytest.mark.parametrize("command", ["show", "state", "files", "rebuild"])
def test_an_application_is_named_before_its_table_or_as_an_option(command: str) -> None:
    found = [
        _parsed([command, *words])
        for words in (["hot"], ["app.py", "hot"], ["hot", "--app", "app.py"])
    ]
    assert [args.table for args in found] == ["hot"] * 3
    assert [args.app for args in found] == [None, "app.py", "app.py"]
    with pytest.raises(SystemExit):
        _parsed([command, "app.py", "hot", "cold"])
