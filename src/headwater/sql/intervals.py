"""`INTERVAL 10 MINUTES` as the duration "10 minutes"."""

from __future__ import annotations

from headwater.definitions import duration_ms
from headwater.sql.cursor import Cursor
from headwater.tokens import TokenKind

UNITS = ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
_SPELLED = {**{unit: unit for unit in UNITS}, **{f"{unit}S": unit for unit in UNITS}}


def interval(cursor: Cursor) -> str:
    """Takes an interval; several parts become one duration in the smallest unit.

    `INTERVAL 1 HOUR 30 MINUTES` is "90 minutes", `INTERVAL '1' DAY` is "1 day".
    """
    cursor.expect("INTERVAL")
    amount, unit = _part(cursor)
    total_ms = duration_ms(f"{amount} {unit}")
    while cursor.next.kind is TokenKind.NUMBER:
        amount, next_unit = _part(cursor)
        total_ms += duration_ms(f"{amount} {next_unit}")
        unit = min(unit, next_unit, key=_unit_ms)
    count = total_ms // _unit_ms(unit)
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _part(cursor: Cursor) -> tuple[int, str]:
    if not cursor.next.value.isdigit():
        raise cursor.error(expected="a whole number and a unit, such as INTERVAL 10 MINUTES")
    amount = int(cursor.take().value)
    if cursor.next.text.upper() not in _SPELLED:
        raise cursor.error(choices=[f"{unit}S" for unit in UNITS])
    return amount, _SPELLED[cursor.take().text.upper()].lower()


def _unit_ms(unit: str) -> int:
    return duration_ms(f"1 {unit}")
