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
_DAY_MS = int(DAY_S * 1000)
_FEWEST = 30
_ROUNDS = 8
_LEAST_SPREAD = 0.1
_WORST = 5.0
"""Degrees: what an evaluation counts for a reading that is further off, or not expected at all."""


def expected(at: Column) -> Column:
    """What the baseline beside a reading expects of it."""
    angle = F.pmod(F.unix_millis(at), F.lit(_DAY_MS)) * F.lit(2 * math.pi / _DAY_MS)
    days = (F.unix_millis(at) - F.unix_millis("since")) / F.lit(_DAY_MS)
    total = F.col("level") + F.col("trend") * days
    waves = (F.sin(angle), F.cos(angle), F.sin(angle * 2), F.cos(angle * 2))
    for name, wave in zip(WAVES, waves, strict=True):
        total = total + F.col(name) * wave
    return total


def learnt(raw: DataFrame) -> DataFrame:
    """A baseline per device from its last two days, by least squares that heed readings the less
    the further off they are. A device with few readings gets none."""
    readings = _recent(raw, LEARNT_FROM_S)
    columns = readings.select("device", F.unix_millis("at").alias("ms"), "celsius")
    return columns.groupBy("device").applyInPandas(_fitted, COLUMNS)


def _fitted(readings: Any) -> Any:
    """Called by Spark with the readings of one device, a pandas DataFrame."""
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped]

    names = ["device", "since", "level", "trend", *WAVES, "spread", "readings"]
    if len(readings) < _FEWEST:
        return pd.DataFrame(columns=names)
    ms, celsius = readings["ms"].to_numpy(), readings["celsius"].to_numpy()
    since, angle = int(ms.max()), (ms % _DAY_MS) * (2 * math.pi / _DAY_MS)
    waves = [np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)]
    parts = np.column_stack([np.ones(len(ms)), (ms - since) / _DAY_MS, *waves])
    weight = np.ones(len(ms))
    for round_ in range(_ROUNDS):
        root = np.sqrt(weight)
        found, *_ = np.linalg.lstsq(parts * root[:, None], celsius * root, rcond=None)
        off = np.abs(celsius - parts @ found)
        # The median tells the spread of normal readings also where some are wrong.
        spread = max(_LEAST_SPREAD, 1.4826 * float(np.median(off)))
        is_rough = round_ < _ROUNDS // 2
        far = np.clip(1 - (off / (4 * spread)) ** 2, 0, None) ** 2
        weight = 1 / np.maximum(off, 0.3 * spread) if is_rough else far
    moment = pd.Timestamp(since, unit="ms")
    row = [readings["device"].iloc[0], moment, *map(float, found), spread, len(ms)]
    return pd.DataFrame([row], columns=names)


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
