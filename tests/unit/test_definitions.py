import pytest

from headwater.definitions import Limit, LimitUnit, OutputMode, Trigger, chosen, duration_ms
from headwater.errors import InvalidDuration, InvalidLimit, UnknownChoice


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500 ms", 500),
        ("1 second", 1_000),
        ("10 minutes", 600_000),
        ("2 hours", 7_200_000),
        ("1 day", 86_400_000),
        ("1 week", 604_800_000),
        ("90s", 90_000),
        ("5 min", 300_000),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "-1 second", "10", "1 month", "1.5 seconds"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidDuration) as caught:
        duration_ms(text, what="watermark")
    assert "watermark" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("default", Trigger.default()),
        ("once", Trigger.once()),
        ("available now", Trigger.available_now()),
        ("available_now", Trigger.available_now()),
        ("1 second", Trigger.processing_time("1 second")),
        ("processing time 1 second", Trigger.processing_time("1 second")),
        ("continuous 1 second", Trigger.continuous("1 second")),
        ("real time 5 seconds", Trigger.real_time("5 seconds")),
    ],
)
def test_a_trigger_is_read_from_words(text: str, expected: Trigger) -> None:
    assert Trigger.parse(text) == expected


def test_a_trigger_reads_back_its_own_words() -> None:
    for trigger in (Trigger.once(), Trigger.continuous("1 second"), Trigger.real_time("2 minutes")):
        assert Trigger.parse(str(trigger)) == trigger


def test_a_trigger_of_no_time_is_refused() -> None:
    with pytest.raises(InvalidDuration):
        Trigger.parse("0 seconds")


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        (1000, 1000, LimitUnit.ROWS),
        ("10_000 rows", 10_000, LimitUnit.ROWS),
        ("50 files", 50, LimitUnit.FILES),
        ("1 file", 1, LimitUnit.FILES),
        ("64 MB", 64 * 1024**2, LimitUnit.BYTES),
    ],
)
def test_a_limit_counts_rows_files_or_bytes(text: int | str, amount: int, unit: LimitUnit) -> None:
    assert Limit.parse(text) == Limit(amount, unit)


@pytest.mark.parametrize("text", [0, "-1", "many", "3 lakes"])
def test_what_is_no_limit_is_refused(text: int | str) -> None:
    with pytest.raises(InvalidLimit):
        Limit.parse(text)


def test_a_wrong_word_names_the_nearest_right_one() -> None:
    with pytest.raises(UnknownChoice) as caught:
        chosen(OutputMode, "apend", what="mode")
    assert "append" in (caught.value.remedy or "")
