"""How far rows of a source are behind the newest of earlier batches, measured while they pass.

A query draws a sketch of its rows' lags where the rows are, so that the memory does not depend on
how many there were. The storage has what earlier runs drew and, every few seconds, what this one
did: a crash loses no more than that.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.definitions import duration_ms
from headwater.jvm.classes import java_class
from headwater.jvm.telling import Lags
from headwater.runtime.storage import Files, Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_SKETCHES = "org.apache.datasketches"
_SKETCH = f"{_SKETCHES}.kll.KllLongsSketch"
KEPT_SHARE = 0.999
SAVED_EVERY_S = 5.0
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
    """Milliseconds behind the newest; 0 and less: not behind."""
    from pyspark.sql import functions as F

    return newest_ms - F.unix_millis(event_time.cast("timestamp"))


class LatenessMeter:
    """Gives every source its lags to draw, and keeps them in the storage."""

    def __init__(self, spark: SparkSession, storage: Storage) -> None:
        self._spark = spark
        self._storage = storage
        self._files = Files(storage, spark)
        self._lags: dict[str, Lags] = {}
        self._earlier: dict[str, bytes | None] = {}
        self._saved_rows: dict[str, int] = {}

    def lags(self, source: str) -> Lags:
        return self._lags.setdefault(source, Lags(self._spark))

    def save(self) -> None:
        """All of this run and what earlier runs drew: however often it is called, a row counts
        once. Not from two threads at a time."""
        for source, lags in list(self._lags.items()):
            sketch = self._heapified(lags.sketch())
            rows = int(sketch.getN())
            if rows == self._saved_rows.get(source, 0):
                continue
            earlier = self._of_earlier_runs(source)
            if earlier is not None:
                sketch.merge(self._heapified(earlier))
            content = json.dumps(self._content(sketch))
            self._files.write(self._storage.lateness(source), content)
            self._saved_rows[source] = rows

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

    def _of_earlier_runs(self, source: str) -> bytes | None:
        """Read once: afterwards the file has what this run drew as well."""
        if source not in self._earlier:
            path = self._storage.lateness(source)
            found = json.loads(self._files.read(path)) if self._files.exists(path) else None
            self._earlier[source] = None if found is None else base64.b64decode(found["sketch"])
        return self._earlier[source]

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
