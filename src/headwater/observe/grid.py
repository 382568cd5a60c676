"""Rows as aligned text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

_WIDEST = 60


def grid(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A header and one line per row; numbers stand to the right.

    >>> print(grid(["device", "celsius"], [["a", 21.5], ["b", None]]))
    device  celsius
    a          21.5
    b          NULL
    """
    texts = [[as_text(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in texts)]) for i, name in enumerate(columns)]
    is_number = [_is_numeric([row[i] for row in rows]) for i in range(len(columns))]
    return "\n".join(_line(row, widths, is_number) for row in [list(columns), *texts])


def as_text(value: Any) -> str:
    """One value as it is shown: short, on one line."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case dt.datetime():
            text = value.isoformat(sep=" ", timespec="auto")
            return text.removesuffix("+00:00")
        case bytes():
            text = value.decode("utf-8", "backslashreplace")
        case dict():
            text = ", ".join(f"{name}: {as_text(part)}" for name, part in value.items())
            text = f"{{{text}}}"
        case list() | tuple():
            text = f"[{', '.join(as_text(part) for part in value)}]"
        case _:
            text = str(value)
    text = text.replace("\n", "\\n").replace("\r", "\\r")
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _is_numeric(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        hasattr(value, "__float__") and not isinstance(value, bool) for value in known
    )


def _line(texts: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> str:
    parts = [
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(texts, widths, is_number, strict=True)
    ]
    return "  ".join(parts).rstrip()
