import csv
import datetime as dt
import io
import json
from decimal import Decimal

import pytest

from headwater.errors import NothingToPlot
from headwater.observe.answers import as_csv, as_json, as_plot, plain

AT = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def test_csv_is_read_back_as_it_was() -> None:
    text = as_csv(["device", "note"], [['a,"b"', "two\nlines"], ["c", None]])
    assert list(csv.reader(io.StringIO(text))) == [
        ["device", "note"],
        ['a,"b"', "two\nlines"],
        ["c", ""],
    ]


def test_json_keeps_times_decimals_and_nesting() -> None:
    row = [AT, Decimal("1.10"), {"start": AT}, [1, None], float("nan"), b"\xff"]
    [found] = json.loads(as_json(list("abcdef"), [row]))
    assert found == {
        "a": "2026-01-01T12:00:00+00:00",
        "b": "1.10",
        "c": {"start": "2026-01-01T12:00:00+00:00"},
        "d": [1, None],
        "e": "nan",
        "f": "\\xff",
    }


def test_a_plot_scales_to_its_longest_bar() -> None:
    lines = as_plot(["device", "n"], [["a", 40], ["b", 10], ["c", None]]).splitlines()
    assert lines[0] == "n by device"
    assert lines[1].count("█") == 50
    assert 12 <= lines[2].count("█") <= 13
    assert "█" not in lines[3]


def test_a_plot_needs_numbers() -> None:
    with pytest.raises(NothingToPlot):
        as_plot(["device"], [["a"]])


def test_a_truth_value_stays_one() -> None:
    assert plain(True) is True
