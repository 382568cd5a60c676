"""A table whose windows fire more than once: what is between Spark's updates and the sink."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.connectors.interface import WriteRequest
from headwater.definitions import EVERY_BATCH, Late, OutputMode, PaneValues, duration_ms
from headwater.event_time.entries import Entry
from headwater.event_time.late import watched_entries
from headwater.event_time.panes import (
    END,
    Additive,
    PaneClock,
    PaneMaker,
    additive_columns,
    newest_panes,
    with_groups,
)
from headwater.ledger.windows import OpenWindows, WindowLedger
from headwater.runtime.offsets import OffsetEntry, OffsetLog
from headwater.runtime.specification import QuerySpec
from headwater.runtime.storage import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Panes:
    """The panes of one table's query, from the frame that is started to the rows that go out."""

    def __init__(self, spec: QuerySpec, frame: DataFrame, log: OffsetLog, files: Files) -> None:
        assert spec.late is not None
        self._spec = spec
        self._late = spec.late
        self._log = log
        self._files = files
        entry = watched_entries(frame)[0]
        self._additive = additive_of(spec.late, frame, entry)
        self.frame = with_groups(frame, entry, self._additive)
        self._maker = PaneMaker(spec.late, self.frame.schema, self._additive)
        self._ledger = WindowLedger(files, f"{log.checkpoint}/headwater/panes")
        self._held: DataFrame | None = None

    def waiting(self) -> str | None:
        """Windows that have not fired on time yet, in words; None where there are none. Where the
        source is idle its watermark stands still, and they wait."""
        entry = self._log.latest()
        if entry is None:
            return None
        windows = self._ledger.open_windows(entry.batch)
        due = sorted(end for end in windows.holders if end > self._clock(entry.batch).on_time_ms)
        if not due:
            return None
        count = "1 window waits" if len(due) == 1 else f"{len(due):,} windows wait"
        return f"{count} for the watermark to pass {_moment(due[0])}, which only new rows move"

    def schema(self) -> StructType:
        """The columns that the sink gets."""
        nothing = self.frame.sparkSession.createDataFrame([], self.frame.schema)
        at = PaneClock(0, 0, False)
        return self._maker.rows(self._maker.decided(nothing, None, at)).schema

    def writer(self, request: WriteRequest) -> Callable[[DataFrame, int], None]:
        """What Spark calls with the groups that a batch updated."""

        def write(updated: DataFrame, batch: int) -> None:
            self._write(updated, batch, request)

        return write

    def _write(self, frame: DataFrame, batch: int, request: WriteRequest) -> None:
        at, before = self._clock(batch), self._clock(batch - 1)
        windows = self._ledger.open_windows(batch - 1)
        updated = frame.localCheckpoint()
        ends = _ends(updated, END)
        touched = ends | self._due(windows, at, before)
        if not touched:
            self._ledger.write_index(batch, _open(windows, at, set(), batch))
            _release(updated)
            return
        known = self._ledger.read(frame.sparkSession, windows, touched)
        decided = self._maker.decided(updated, known, at).localCheckpoint()
        _release(updated)
        rows = self._maker.rows(decided)
        if self._spec.mode is OutputMode.UPDATE:
            rows = newest_panes(rows, self._spec.table.key)
        sink = self._spec.sink
        sink.write_increment(rows, request, query=self._query_id(), batch=batch)
        self._keep(decided, batch, windows, touched, at)

    def _keep(
        self,
        decided: DataFrame,
        batch: int,
        windows: OpenWindows,
        touched: set[int],
        at: PaneClock,
    ) -> None:
        from pyspark.sql import functions as F

        is_open = F.col("end") > F.timestamp_millis(F.lit(at.watermark_ms))
        groups = decided.where(is_open).drop("panes")
        dirty: set[int] = set()
        if self._late.early != EVERY_BATCH:
            dirty = _ends(decided.where(is_open & F.col("is_dirty")), "end")
        now = _open(windows, at, touched, batch, dirty)
        self._ledger.write(batch, groups, now)
        self._ledger.remember(batch, groups)
        self._ledger.forget_before(batch, now)
        if self._held is not None:
            _release(self._held)
        self._held = decided

    def _due(self, windows: OpenWindows, at: PaneClock, before: PaneClock) -> set[int]:
        """Windows that fire although no row came for them."""
        passed = {end for end in windows.holders if before.on_time_ms < end <= at.on_time_ms}
        over = {end for end in windows.dirty if end <= at.watermark_ms}
        early = set(windows.dirty) if at.fires_early else set()
        return passed | over | early

    def _clock(self, batch: int) -> PaneClock:
        entry = self._log.entry(batch)
        if entry is None:
            return PaneClock(0, 0, False)
        lateness = duration_ms(self._late.lateness or "0 ms")
        on_time = entry.watermark_ms + lateness if entry.watermark_ms else 0
        return PaneClock(entry.watermark_ms, on_time, self._fires_early(entry))

    def _fires_early(self, entry: OffsetEntry) -> bool:
        """Whether an interval of the processing time has ended since the batch before."""
        early = self._late.early
        if early is None or early == EVERY_BATCH:
            return False
        before = self._log.entry(entry.batch - 1)
        interval = duration_ms(early)
        since = None if before is None else before.timestamp_ms // interval
        return since is not None and entry.timestamp_ms // interval > since

    def _query_id(self) -> str:
        return str(json.loads(self._files.read(f"{self._log.checkpoint}/metadata"))["id"])


def additive_of(late: Late, frame: DataFrame, entry: Entry) -> list[Additive]:
    """The columns that a discarding pane shows the difference of."""
    if late.values is not PaneValues.DISCARDING:
        return []
    return additive_columns(frame, entry)[0]


def _open(
    windows: OpenWindows,
    at: PaneClock,
    touched: set[int],
    batch: int,
    dirty: set[int] | None = None,
) -> OpenWindows:
    """The windows that stay open, held by this batch where it touched them."""
    holders = {end: holder for end, holder in windows.holders.items() if end > at.watermark_ms}
    holders |= {end: batch for end in touched if end > at.watermark_ms}
    still = {end for end in windows.dirty if end in holders and end not in touched}
    return OpenWindows(holders, frozenset(still | (dirty or set())))


def _moment(ms: int) -> str:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(sep=" ", timespec="seconds")


def _ends(groups: DataFrame, column: str) -> set[int]:
    """The ends of the windows that groups are in, in milliseconds."""
    from pyspark.sql import functions as F

    found = groups.select(F.unix_millis(F.col(column))).distinct().collect()
    return {int(row[0]) for row in found}


def _release(frame: DataFrame) -> None:
    """Frees what `localCheckpoint` holds; Spark itself waits for a garbage collection."""
    frame._jdf.queryExecution().analyzed().rdd().unpersist(False)
