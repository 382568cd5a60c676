"""Rows as a table, CSV, JSON or a plot of characters."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import json
from collections.abc import Sequence
from typing import Any

from headwater.errors import NothingToPlot
from headwater.observe.grid import as_text, grid

_PLOT_WIDTH = 50
_PLOT_LABEL = 30
_BLOCKS = " ▏▎▍▌▋▊▉█"

Row = Sequence[Any]


def as_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    return grid(columns, rows)


def as_csv(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """With a header; a missing value is an empty field.

    >>> print(as_csv(["device", "n"], [["a,b", 1], [None, 2]]))
    device,n
    "a,b",1
    ,2
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if value is None else _plain_text(value) for value in row])
    return text.getvalue().rstrip("\n")


def as_json(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """One array of objects; times are in ISO 8601, decimals are texts."""
    found = [dict(zip(columns, map(plain, row), strict=True)) for row in rows]
    return json.dumps(found, indent=1, ensure_ascii=False)


def as_plot(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """A bar per row: the last column of numbers, named by the first other column.

    >>> print(as_plot(["device", "n"], [["a", 2], ["b", 1]]))
    n by device
    a  2 ██████████████████████████████████████████████████
    b  1 █████████████████████████
    """
    numeric = [i for i in range(len(columns)) if _is_numeric([row[i] for row in rows])]
    if not numeric:
        raise NothingToPlot(columns)
    value = numeric[-1]
    label = next((i for i in range(len(columns)) if i != value), None)
    names = ["" if label is None else as_text(row[label])[:_PLOT_LABEL] for row in rows]
    numbers = [float(row[value]) if row[value] is not None else 0.0 for row in rows]
    texts = [as_text(row[value]) for row in rows]
    most = max((abs(number) for number in numbers), default=0.0) or 1.0
    width, digits = max(map(len, names), default=0), max(map(len, texts), default=0)
    head = columns[value] if label is None else f"{columns[value]} by {columns[label]}"
    bars = [
        f"{name:<{width}}  {text:>{digits}} {_bar(abs(number) / most)}".rstrip()
        for name, text, number in zip(names, texts, numbers, strict=True)
    ]
    return "\n".join([head, *bars])


FORMATS = {"table": as_table, "csv": as_csv, "json": as_json, "plot": as_plot}


def plain(value: Any) -> Any:
    """A value that JSON can hold, without losing digits."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case dict():
            return {str(key): plain(part) for key, part in value.items()}
        case list() | tuple():
            return [plain(part) for part in value]
        case bytes():
            return value.decode("utf-8", "backslashreplace")
    return str(value)


def _plain_text(value: Any) -> str:
    found = plain(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _is_numeric(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)
        for value in known
    )


def _bar(share: float) -> str:
    eighths = round(share * _PLOT_WIDTH * 8)
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()
