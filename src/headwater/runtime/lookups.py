"""Lookups that are read anew while a pipeline runs, and stay what they were for a batch.

Each content that was read is a version in a Delta table of its own. A query reads the versions
table and takes the rows of one version: the newest when the batch is planned, written down beside
the checkpoint, so that a batch that runs again joins the same rows.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from headwater.definitions import Lookup, duration_ms
from headwater.events import LookupReloaded, Report
from headwater.jvm.asking import rows_per_batch
from headwater.ledger import transactions
from headwater.runtime.failures import first_line
from headwater.runtime.offsets import OffsetLog
from headwater.runtime.pinning import Pins
from headwater.runtime.storage import Files, Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VERSION = "__version"


class VersionedLookup:
    """One lookup with `reload`; `read` gives what it holds now."""

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        lookup: Lookup,
        read: Callable[[], DataFrame],
    ) -> None:
        self._spark = spark
        self._files = Files(storage, spark)
        self.lookup = lookup
        self._read = read
        self._place = storage.lookup(lookup.name)
        self._loading = threading.Lock()

    def load(self) -> int | None:
        """Reads the lookup; its new version, None where nothing has changed."""
        from pyspark.sql import functions as F

        with self._loading:
            frame = self._read()
            known, digest = _index(self._files, self._place), _digest(frame)
            if known is not None and known["digest"] == digest:
                return None
            # A version that a crash left without its index is never read; the next has its own.
            place, application = f"{self._place}/rows", f"lookup/{self.lookup.name}"
            stored = transactions.last_version(self._spark, place, application)
            version = 0 if stored is None else stored + 1
            rows = frame.withColumn(_VERSION, F.lit(version).cast("long"))
            transactions.append(rows, place, application=application, version=version)
            self._files.write(
                f"{self._place}/index.json", json.dumps({"version": version, "digest": digest})
            )
            return version

    def frame(self, log: OffsetLog) -> DataFrame:
        """The rows for a query, by its own offset log."""
        pins = Pins(self._files, f"{log.checkpoint}/headwater/lookups/{self.lookup.name}")
        # Java keeps what it may ask: the files, not this lookup with all that it reads from.
        newest = partial(_newest, self._files, self._place)
        rows = rows_per_batch(
            self._spark,
            f"{self._place}/rows",
            _VERSION,
            lambda: pins.version(log, newest),
        )
        return rows.drop(_VERSION)


def _newest(files: Files, place: str) -> int:
    known = _index(files, place)
    assert known is not None
    return int(known["version"])


def _index(files: Files, place: str) -> dict[str, int] | None:
    path = f"{place}/index.json"
    return json.loads(files.read(path)) if files.exists(path) else None


def _digest(frame: DataFrame) -> int:
    """Equal for equal rows in any order."""
    from pyspark.sql import functions as F

    row = F.xxhash64(*[F.col(f"`{name}`") for name in frame.columns]).cast("decimal(38,0)")
    found = frame.agg(F.sum(row), F.count(F.lit(1))).first()
    assert found is not None
    return int(found[0] or 0) * 1_000_003 + int(found[1])


class Reloader:
    """Reloads every lookup after its interval, in a thread of its own."""

    def __init__(self, lookups: Mapping[str, VersionedLookup], report: Report) -> None:
        self.lookups = lookups
        self._report = report
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(one,), name="headwater-reload", daemon=True)
            for one in lookups.values()
        ]

    def start(self) -> None:
        """Reads every lookup once, then goes on beside the queries."""
        for one in self.lookups.values():
            one.load()
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _work(self, one: VersionedLookup) -> None:
        interval_s = duration_ms(one.lookup.reload or "") / 1000
        while not self._ended.wait(interval_s):
            try:
                version = one.load()
            except Exception as problem:
                # The rows that are there serve on.
                self._report(LookupReloaded(one.lookup.name, None, first_line(problem)))
                continue
            if version is not None:
                self._report(LookupReloaded(one.lookup.name, version))
