"""How far rows of a source are behind the newest of earlier batches, measured while they pass.

Every batch brings a sketch of its rows' lags, made by Spark where the rows are; sketches are merged
here, so that the memory does not depend on how many rows there were.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.definitions import duration_ms
from headwater.jvm.classes import java_class
from headwater.runtime.storage import Files, Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

LAG = "__lag"
"""A row's lag in milliseconds, and the sketch of a batch's."""
_SKETCHES = "org.apache.datasketches"
_SKETCH = f"{_SKETCHES}.kll.KllLongsSketch"
KEPT_SHARE = 0.999
DELAYS = (
    "1 second",
    "10 seconds",
    "30 seconds",
    "1 minute",
    "5 minutes",
    "10 minutes",
    "30 minutes",
    "1 hour",
    "6 hours",
    "1 day",
)


@dataclass(frozen=True, slots=True)
class Lateness:
    """The lags of one source's rows in milliseconds; `late_shares` is the share of rows that
    would be behind a watermark, by its delay."""

    source: str
    rows: int
    p50_ms: int
    p99_ms: int
    p999_ms: int
    max_ms: int
    late_shares: dict[str, float]


def lag(event_time: Column, newest_ms: Column) -> Column:
    """Milliseconds behind the newest; NULL before there is a watermark (0)."""
    from pyspark.sql import functions as F

    behind = newest_ms - F.unix_millis(event_time.cast("timestamp"))
    return F.when(newest_ms != 0, F.greatest(behind, F.lit(0)))


def sketch(lags: Column) -> Column:
    """What a batch reports of its rows' lags."""
    from pyspark.sql import functions as F

    return F.kll_sketch_agg_bigint(lags).alias(LAG)


class LatenessMeter:
    """Merges what batches report, and keeps it in the storage."""

    def __init__(self, spark: SparkSession, storage: Storage) -> None:
        self._spark = spark
        self._storage = storage
        self._files = Files(storage, spark)
        self._sketches: dict[str, Any] = {}

    def hear(self, source: str, metrics: Any) -> None:
        """Takes a batch's metrics as Spark's own row."""
        found = None if metrics is None else metrics.get(0)
        if found is None:
            return
        if source not in self._sketches:
            self._load(source)
        heard = self._heapified(bytes(found))
        if not heard.isEmpty():
            self._sketches[source].merge(heard)

    def save(self) -> None:
        for source, sketch in self._sketches.items():
            if sketch.isEmpty():
                continue
            content = json.dumps(self._content(sketch))
            self._files.write(self._storage.lateness(source), content)

    def _content(self, sketch: Any) -> dict[str, Any]:
        including = self._including()
        ranks = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": KEPT_SHARE}
        shares = {d: 1 - sketch.getRank(duration_ms(d), including) for d in DELAYS}
        return {
            "rows": int(sketch.getN()),
            **{name: int(sketch.getQuantile(rank, including)) for name, rank in ranks.items()},
            "max_ms": int(sketch.getMaxItem()),
            "late_shares": shares,
            "sketch": base64.b64encode(bytes(sketch.toByteArray())).decode(),
        }

    def _load(self, source: str) -> None:
        path = self._storage.lateness(source)
        if not self._files.exists(path):
            self._sketches[source] = java_class(self._spark, _SKETCH).newHeapInstance()
            return
        content = json.loads(self._files.read(path))
        self._sketches[source] = self._heapified(base64.b64decode(content["sketch"]))

    def _heapified(self, sketch: bytes) -> Any:
        memory = java_class(self._spark, f"{_SKETCHES}.memory.Memory").wrap(sketch)
        return java_class(self._spark, _SKETCH).heapify(memory)

    def _including(self) -> Any:
        criteria = f"{_SKETCHES}.quantilescommon.QuantileSearchCriteria"
        return java_class(self._spark, criteria).INCLUSIVE


def measured(files: Files, storage: Storage, source: str) -> Lateness | None:
    """What was measured of a source; None where nothing was."""
    path = storage.lateness(source)
    if not files.exists(path):
        return None
    content = json.loads(files.read(path))
    content.pop("sketch")
    return Lateness(source, **content)
