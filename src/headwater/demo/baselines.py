"""What is normal for a device, learnt from what was stored: its level, where that goes, and its
daily rhythm."""

from __future__ import annotations

import math
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.demo.world import DAY_S

WAVES = ("day_sin", "day_cos", "night_sin", "night_cos")
COLUMNS = (
    "device string, since timestamp, level double, trend double, day_sin double, day_cos double, "
    "night_sin double, night_cos double, spread double, readings bigint"
)
LEARNT_FROM_S = 2 * DAY_S
"""So much of the stored readings is looked at."""
_DAY_MS = int(DAY_S * 1000)
_FEWEST = 30
_ROUNDS = 8
_LEAST_SPREAD = 0.1
_PARTS = 8
_HOLD = 1e-6
_WIDENS = 0.15
"""By so much of itself the usual spread grows with every day that the baseline is older."""
_WORST = 5.0
"""Degrees: what an evaluation counts for a reading that is further off, or not expected at all."""


def expected(at: Column) -> Column:
    """What the baseline beside a reading expects of it."""
    angle = F.pmod(F.unix_millis(at), F.lit(_DAY_MS)) * F.lit(2 * math.pi / _DAY_MS)
    total = F.col("level") + F.col("trend") * _days_since(at)
    waves = (F.sin(angle), F.cos(angle), F.sin(angle * 2), F.cos(angle * 2))
    for name, wave in zip(WAVES, waves, strict=True):
        total = total + F.col(name) * wave
    return total


def usual(at: Column) -> Column:
    """How far a normal reading may be from that: the further, the longer ago the baseline was
    learnt, since seasons change."""
    return F.col("spread") * (1 + F.lit(_WIDENS) * F.greatest(_days_since(at), F.lit(0.0)))


def _days_since(at: Column) -> Column:
    return (F.unix_millis(at) - F.unix_millis("since")) / F.lit(_DAY_MS)


def learnt(raw: DataFrame) -> DataFrame:
    """A baseline per device from its last two days, by least squares that heed readings the less
    the further off they are. A device with few readings gets none."""
    columns = raw.select("device", F.unix_millis("at").alias("ms"), "celsius")
    part = F.pmod(F.xxhash64("device"), F.lit(_PARTS))
    return columns.groupBy(part).applyInPandas(_fitted, COLUMNS)


def _fitted(readings: Any) -> Any:
    """Called by Spark with the readings of many devices, a pandas DataFrame: they are fitted at
    once, by arrays, not one device after the other."""
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped]

    known = readings[readings.groupby("device")["ms"].transform("size") >= _FEWEST]
    codes, devices = pd.factorize(known["device"])
    ms, celsius = known["ms"].to_numpy(), known["celsius"].to_numpy()
    since, angle = int(readings["ms"].max()), (ms % _DAY_MS) * (2 * math.pi / _DAY_MS)
    waves = [np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)]
    parts = np.column_stack([np.ones(len(ms)), (ms - since) / _DAY_MS, *waves])
    weight = np.ones(len(ms))
    found, spread = np.empty((0, parts.shape[1])), np.empty(0)
    for round_ in range(_ROUNDS if len(devices) else 0):
        found = _least_squares(parts, celsius, weight, codes)
        off = np.abs(celsius - (parts * found[codes]).sum(axis=1))
        # The median tells the spread of normal readings also where some are wrong.
        usual = pd.Series(off).groupby(codes).median().to_numpy()
        spread = np.maximum(_LEAST_SPREAD, 1.4826 * usual)
        is_rough = round_ < _ROUNDS // 2
        far = np.clip(1 - (off / (4 * spread[codes])) ** 2, 0, None) ** 2
        weight = 1 / np.maximum(off, 0.3 * spread[codes]) if is_rough else far
    return pd.DataFrame(
        {
            "device": devices,
            "since": pd.Timestamp(since, unit="ms"),
            **dict(zip(("level", "trend", *WAVES), found.T, strict=True)),
            "spread": spread,
            "readings": np.bincount(codes, minlength=len(devices)),
        }
    )


def _least_squares(parts: Any, values: Any, weight: Any, codes: Any) -> Any:
    """The weighted solution of each group of rows, by its normal equations."""
    import numpy as np

    def sums(of: Any) -> Any:
        return np.bincount(codes, weights=weight * of)

    width = range(parts.shape[1])
    left = np.stack([[sums(parts[:, i] * parts[:, j]) for j in width] for i in width])
    right = np.stack([sums(parts[:, i] * values) for i in width])
    # Where a device's readings leave a direction open, the smallest solution is taken.
    held = np.moveaxis(left, 2, 0) + _HOLD * np.eye(len(width))
    return np.linalg.solve(held, right.T[:, :, None])[:, :, 0]


def closeness(baseline: DataFrame, rows: DataFrame) -> float:
    """Minus the mean distance, in degrees, to the readings of the last half day. One that is very
    far off counts as any other such: it may be a fault. One without a baseline does, too."""
    known = _recent(rows, DAY_S / 2).join(F.broadcast(baseline), "device", "left")
    off = F.abs(F.col("celsius") - expected(F.col("at")))
    found = known.agg(F.avg(F.least(F.coalesce(off, F.lit(_WORST)), F.lit(_WORST)))).first()
    assert found is not None
    return -float(found[0])


def _recent(rows: DataFrame, seconds: float) -> DataFrame:
    newest = rows.agg(F.max("at").alias("newest"))
    begin = F.col("newest") - F.expr(f"INTERVAL {seconds:g} SECONDS")
    return rows.join(F.broadcast(newest)).where(F.col("at") > begin).drop("newest")
