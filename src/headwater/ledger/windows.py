"""The last values of open windows, versioned by batch.

`<place>/<batch>` holds the groups of every window that the batch touched, as Parquet; the small
file `<place>/<batch>.json` says for every open window which batch holds it. So a batch reads and
writes what it touches, whatever else is open, and a batch that runs again finds the version before
it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class FileStore(Protocol):
    """The file operations that the ledger needs."""

    def exists(self, path: str) -> bool: ...
    def names(self, path: str) -> list[str]: ...
    def read(self, path: str) -> str: ...
    def write(self, path: str, text: str) -> None: ...
    def remove(self, path: str) -> None: ...


@dataclass(frozen=True, slots=True)
class OpenWindows:
    """Which batch holds each open window, by the window's end in milliseconds; which windows have
    groups that changed since they last fired; and which fired since their groups were written."""

    holders: Mapping[int, int] = field(default_factory=dict)
    dirty: frozenset[int] = frozenset()
    fired: frozenset[int] = frozenset()


class WindowLedger:
    """Reads and writes versions. Keeps the last one it wrote in memory, for the next batch."""

    def __init__(self, files: FileStore, place: str) -> None:
        self._files = files
        self._place = place
        self._last: tuple[int, DataFrame] | None = None
        self._columns: StructType | None = None

    def open_windows(self, batch: int) -> OpenWindows:
        """What a version says; nothing before the first."""
        if not self.has_version(batch):
            return OpenWindows()
        found = json.loads(self._files.read(f"{self._place}/{batch}.json"))
        holders = {int(end): int(holder) for end, holder in found["windows"].items()}
        return OpenWindows(holders, frozenset(found["dirty"]), frozenset(found.get("fired", ())))

    def has_version(self, batch: int) -> bool:
        """Whether a batch has come so far."""
        return batch >= 0 and self._files.exists(f"{self._place}/{batch}.json")

    def read(
        self, spark: SparkSession, windows: OpenWindows, ends: Collection[int]
    ) -> DataFrame | None:
        """The groups of some windows; None where no version holds any."""
        from pyspark.sql import functions as F

        wanted: dict[int, list[int]] = {}
        for end in ends:
            if end in windows.holders:
                wanted.setdefault(windows.holders[end], []).append(end)
        whole: DataFrame | None = None
        for holder, its_ends in wanted.items():
            # An array is handed over beside the code of a stage, which Spark then compiles once.
            moments = F.array(*[F.timestamp_millis(F.lit(end)) for end in its_ends])
            part = self._version(spark, holder).where(F.array_contains(moments, F.col("end")))
            whole = part if whole is None else whole.unionByName(part)
        return whole

    def write(self, batch: int, groups: DataFrame) -> None:
        """Writes the groups of the windows that this batch holds; `write_index` makes it count."""
        groups.write.mode("overwrite").parquet(f"{self._place}/{batch}")

    def write_index(self, batch: int, windows: OpenWindows) -> None:
        """Makes a version."""
        text = json.dumps(
            {
                "windows": {str(end): holder for end, holder in windows.holders.items()},
                "dirty": sorted(windows.dirty),
                "fired": sorted(windows.fired),
            }
        )
        self._files.write(f"{self._place}/{batch}.json", text)

    def remember(self, batch: int, groups: DataFrame) -> None:
        """Groups in memory in place of those that a version's files hold."""
        self._last = (batch, groups)
        self._columns = groups.schema

    def forget_before(self, batch: int, windows: OpenWindows) -> None:
        """Removes versions that neither this batch nor a repetition of it needs."""
        needed = {*windows.holders.values(), *self.open_windows(batch - 1).holders.values()}
        for name in self._files.names(self._place):
            number, is_text = name.removesuffix(".json"), name.endswith(".json")
            if not number.isdigit() or int(number) >= batch - 1:
                continue
            if is_text or int(number) not in needed:
                self._files.remove(f"{self._place}/{name}")

    def _version(self, spark: SparkSession, batch: int) -> DataFrame:
        if self._last is not None and self._last[0] == batch:
            return self._last[1]
        # To learn the columns from the files takes Spark a job.
        reader = spark.read if self._columns is None else spark.read.schema(self._columns)
        return reader.parquet(f"{self._place}/{batch}")
