"""Rows as people write them in a test, and as Spark's types want them."""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import RowMisfit

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Rows = Iterable[Any] | str | Path
"""Tuples, mappings by column, a markdown table, or a file of JSON lines, CSV or Parquet."""

DAY = dt.date(2026, 1, 1)
"""The day of a time that is written without one: "12:00:05"."""

TOLERANCE = 1e-9
"""Floating-point values are equal within this relative difference."""


def records(rows: Rows, names: Sequence[str], *, what: str) -> list[tuple[Any, ...]]:
    """Rows in any form as tuples in the order of the columns, values as they were written."""
    found = _listed(rows)
    return [_record(row, names, number, what) for number, row in enumerate(found, 1)]


def _listed(rows: Rows) -> list[Any]:
    if isinstance(rows, Path):
        return _from_file(rows)
    if isinstance(rows, str):
        return _from_markdown(rows)
    return list(rows)


def _record(row: Any, names: Sequence[str], number: int, what: str) -> tuple[Any, ...]:
    if isinstance(row, Mapping):
        for name in row:
            if name not in names:
                raise RowMisfit(what, number, str(name), expected=f"one of {', '.join(names)}")
        return tuple(row.get(name) for name in names)
    if isinstance(row, tuple | list):
        if len(row) != len(names):
            raise RowMisfit(
                what,
                number,
                None,
                found=f"{len(row)} values: {row!r}",
                expected=f"{len(names)}: {', '.join(names)}",
            )
        return tuple(row)
    if len(names) == 1:
        return (row,)
    raise RowMisfit(what, number, None, found=repr(row), expected="a tuple or a mapping by column")


def _from_markdown(text: str) -> list[dict[str, Any]]:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if len(cells) > 1 and all(set(cell) <= {"-", ":"} for cell in cells[1]):
        del cells[1]
    head, *body = cells
    return [{n: _blank(c) for n, c in zip(head, row, strict=True)} for row in body]


def _from_file(path: Path) -> list[Any]:
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return list(parquet.read_table(path).to_pylist())
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return [{n: _blank(v) for n, v in row.items()} for row in csv.DictReader(file)]
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def _blank(cell: str) -> str | None:
    return None if cell in ("", "null", "NULL") else cell


def typed(rows: Iterable[Sequence[Any]], schema: StructType, *, what: str) -> list[tuple[Any, ...]]:
    """Rows with every value as its column's type has it; raises which row and which column."""
    result = []
    for number, row in enumerate(rows, 1):
        values = []
        for column, value in zip(schema.fields, row, strict=True):
            try:
                values.append(as_type(value, column.dataType))
            except (ValueError, TypeError, ArithmeticError, AttributeError) as problem:
                raise RowMisfit(
                    what,
                    number,
                    column.name,
                    found=repr(value),
                    expected=column.dataType.simpleString(),
                ) from problem
        result.append(tuple(values))
    return result


def as_type(value: Any, kind: DataType) -> Any:
    """A value as the type has it: times are aware, structs are dicts by field."""
    if value is None:
        return None
    name = kind.typeName()
    if name in _CONVERSIONS:
        return _CONVERSIONS[name](value)
    if name.startswith("decimal"):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale))  # type: ignore[attr-defined]
    if name == "array":
        return [as_type(each, kind.elementType) for each in value]  # type: ignore[attr-defined]
    if name == "map":
        pairs = value.items() if isinstance(value, Mapping) else value
        return {
            as_type(k, kind.keyType): as_type(v, kind.valueType)  # type: ignore[attr-defined]
            for k, v in pairs
        }
    if name == "struct":
        return _struct(value, kind)
    return value


def _struct(value: Any, kind: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        unknown = set(value) - set(kind.names)
        if unknown:
            raise ValueError(f"unknown field {unknown}")
        values = [value.get(name) for name in kind.names]
    else:
        values = list(value)
    return {f.name: as_type(v, f.dataType) for f, v in zip(kind.fields, values, strict=True)}


def moment(value: Any) -> dt.datetime:
    """An instant: "12:00:05" on the test's day, ISO text, or a datetime; UTC where it has no zone.

    >>> moment("12:00:05").isoformat()
    '2026-01-01T12:00:05+00:00'
    """
    if isinstance(value, str):
        text = value.strip()
        has_day = "-" in text[:8]
        value = dt.datetime.fromisoformat(text if has_day else f"{DAY.isoformat()}T{text}")
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    if not isinstance(value, dt.datetime):
        raise TypeError(value)
    return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


def moment_ms(value: Any) -> int:
    return int(moment(value).timestamp() * 1000)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError(value)
    return int(value)


def _truth(value: Any) -> bool:
    words = {"true": True, "false": False}
    if isinstance(value, str):
        return words[value.lower()] if value.lower() in words else _refuse(value)
    return value if isinstance(value, bool) else _refuse(value)


def _refuse(value: Any) -> Any:
    raise TypeError(value)


def _fraction(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(value)
    return float(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _refuse(value)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _day(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        return value.date()
    return dt.date.fromisoformat(value) if isinstance(value, str) else value


def _local_moment(value: Any) -> dt.datetime:
    return moment(value).replace(tzinfo=None)


_CONVERSIONS = {
    "boolean": _truth,
    "byte": _whole,
    "short": _whole,
    "integer": _whole,
    "long": _whole,
    "float": _fraction,
    "double": _fraction,
    "string": _text,
    "binary": _bytes,
    "date": _day,
    "timestamp": moment,
    "timestamp_ntz": _local_moment,
}


def arrow_table(rows: Sequence[tuple[Any, ...]], schema: StructType, *, what: str) -> Any:
    """Typed rows as an Arrow table, which Spark reads without a job."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    arrays = []
    for index, column in enumerate(schema.fields):
        kind = to_arrow_type(column.dataType, timezone="UTC")
        values = [row[index] for row in rows]
        try:
            arrays.append(pa.array(values, type=kind))
        except (pa.ArrowException, TypeError, ValueError) as problem:
            number, value = _misfit(values, kind)
            expected = column.dataType.simpleString()
            raise RowMisfit(
                what, number, column.name, found=repr(value), expected=expected
            ) from problem
    names = [column.name for column in schema.fields]
    return pa.Table.from_arrays(arrays, names=names)


def _misfit(values: Sequence[Any], kind: Any) -> tuple[int, Any]:
    import pyarrow as pa

    for number, value in enumerate(values, 1):
        try:
            pa.array([value], type=kind)
        except (pa.ArrowException, TypeError, ValueError):
            return number, value
    return 1, values[0]


def from_arrow(table: Any) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table; instants are aware and in UTC."""
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        pairs = value and all(isinstance(each, tuple) and len(each) == 2 for each in value)
        if pairs:
            return {key: _plain(each) for key, each in value}
        return [_plain(each) for each in value]
    return value


def are_equal(one: Any, other: Any) -> bool:
    """Whether two values are the same, floating-point ones within the tolerance."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=TOLERANCE)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(are_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_equal(one[key], other[key]) for key in one)
    return bool(one == other)


def difference(
    expected: Iterable[tuple[Any, ...]], found: Iterable[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Rows that are missing and rows that are too many, as multisets."""
    # Rows that are equal but for floating-point values lie in one bucket.
    buckets: dict[str, list[tuple[Any, ...]]] = {}
    for row in found:
        buckets.setdefault(_exact_part(row), []).append(row)
    missing = []
    for row in expected:
        bucket = buckets.get(_exact_part(row), [])
        match = next((i for i, other in enumerate(bucket) if are_equal(row, other)), None)
        if match is None:
            missing.append(row)
        else:
            del bucket[match]
    extra = [row for bucket in buckets.values() for row in bucket]
    return sorted(missing, key=repr), sorted(extra, key=repr)


def _exact_part(value: Any) -> str:
    return repr(_without_floats(value))


def _without_floats(value: Any) -> Any:
    if isinstance(value, float):
        return None
    if isinstance(value, tuple | list):
        return [_without_floats(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_floats(each) for key, each in value.items()}
    return value


def shown(value: Any) -> str:
    """A value as a person would write it in a test."""
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None)
        is_short = text.date() == DAY
        return text.time().isoformat() if is_short else text.isoformat(sep=" ")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(shown, value)) + ")"
    return "NULL" if value is None else str(value)
