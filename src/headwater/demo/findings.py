"""What the pipeline found, read from its sinks by a plain Kafka consumer and Delta reader."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.demo.app import anomalies, scored
from headwater.demo.judging import Finding
from headwater.demo.proof import messages
from headwater.runtime.storage import Storage


@dataclass(frozen=True, slots=True)
class Found:
    findings: list[Finding]
    newest_s: float
    """The newest event that was stored."""
    delays_s: list[float]
    """From the arrival of a reading to that of its anomaly."""

    def lines(self) -> list[str]:
        if not self.delays_s:
            return []
        ordered = sorted(self.delays_s)
        middle, last = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        return [f"  anomalies in Kafka after their readings: p50 {middle:.1f} s, p99 {last:.1f} s"]


def collected(bootstrap_servers: str, topic: str, storage: Storage, *, first_version: int) -> Found:
    """Anomalies of a model's version and those after it, stuck sensors, silent devices."""
    found, delays = [], []
    for value, written_ms in messages(bootstrap_servers, topic):
        anomaly = json.loads(value)
        if anomaly["model_version"] < first_version:
            continue
        found.append(Finding("anomalies", anomaly["device"], _seconds(anomaly["at"])))
        delays.append(written_ms / 1000 - _seconds(anomaly["arrived"]))
    for table in ("stuck", "silent"):
        rows = _rows(storage.table(table), ["device", "since"])
        found += [Finding(table, row["device"], row["since"].timestamp()) for row in rows]
    newest = max(
        (row["at"].timestamp() for row in _rows(storage.table("raw"), ["at"])), default=0.0
    )
    return Found(found, newest, delays)


def without_learning(raw: DataFrame, baseline: DataFrame, *, since_s: float) -> list[Finding]:
    """What a version of the baseline would have found in the stored readings, by the same tables
    as a batch."""
    readings = raw.where(F.col("at") >= F.timestamp_millis(F.lit(int(since_s * 1000))))
    rows = anomalies(scored(readings.withColumn("arrived", F.col("at")), baseline))
    found = rows.select("device", "at").collect()
    return [Finding("anomalies", row["device"], row["at"].timestamp()) for row in found]


def _seconds(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()


def _rows(path: str, columns: list[str]) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(path):
        return []
    found: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table(columns=columns).to_pylist()
    return found
