import datetime as dt

from headwater.observe.grid import as_text, grid


def test_numbers_stand_to_the_right_and_names_to_the_left() -> None:
    assert grid(["device", "n"], [("a", 1), ("bcdefgh", 20)]).splitlines() == [
        "device    n",
        "a         1",
        "bcdefgh  20",
    ]


def test_values_are_short_and_on_one_line() -> None:
    assert as_text(None) == "NULL"
    assert as_text(True) == "true"
    assert as_text(b'{"a"') == '{"a"'
    assert as_text("a\nb") == "a\\nb"
    assert as_text({"a": [1, None]}) == "{a: [1, NULL]}"
    assert as_text(dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)) == "2026-01-01 12:00:00"
    assert len(as_text("x" * 100)) == 60
