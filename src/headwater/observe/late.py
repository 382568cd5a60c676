"""Captured late rows, window by window, read without Spark where they are on this machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH = 65_536


@dataclass(frozen=True, slots=True)
class MissedWindow:
    """A window and how many late rows missed it; rows without a window are counted together."""

    name: str
    rows: int
    merged: int


def missed_windows(path: str) -> list[MissedWindow]:
    """The windows of a late table in order; none where there is no table."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        table = DeltaTable(path)
    except (TableNotFoundError, FileNotFoundError):
        return []
    rows: Counter[str] = Counter()
    merged: Counter[str] = Counter()
    dataset = table.to_pyarrow_dataset()
    for batch in dataset.to_batches(columns=["window", "merged"], batch_size=_BATCH):
        for window, is_merged in zip(
            batch.column("window").to_pylist(), batch.column("merged").to_pylist(), strict=True
        ):
            name = _name(window)
            rows[name] += 1
            merged[name] += bool(is_merged)
    return [MissedWindow(name, rows[name], merged[name]) for name in sorted(rows)]


def missed_elsewhere(spark: SparkSession, path: str) -> list[MissedWindow]:
    """The same of a table that is there and that only Spark reaches."""
    from pyspark.sql import functions as F

    rows = spark.read.format("delta").load(path).groupBy("window")
    counted = rows.agg(F.count("*").alias("rows"), F.count_if("merged").alias("merged")).collect()
    found = [MissedWindow(_name(row.window), row["rows"], row["merged"]) for row in counted]
    return sorted(found, key=lambda window: window.name)


def _name(window: dict[str, Any] | None) -> str:
    if window is None:
        return "without a window"
    return f"{window['start']:%Y-%m-%d %H:%M:%S} to {window['end']:%H:%M:%S}"
