"""A table whose windows fire more than once: what is between Spark's updates and the sink."""

from __future__ import annotations

import datetime as dt
import functools
import json
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.connectors.interface import WriteRequest
from headwater.definitions import EVERY_BATCH, Late, LateKind, OutputMode, PaneValues, duration_ms
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
from headwater.event_time.watermark import moment
from headwater.ledger.windows import OpenWindows, WindowLedger
from headwater.runtime.offsets import OffsetEntry, OffsetLog
from headwater.runtime.specification import QuerySpec
from headwater.runtime.storage import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a batch has to do, in windows by their ends.

    Without a row, a window fires on time what the ledger holds of it: `quiet` ones stay there as
    they are, and the index says that they fired. `changed` ones got rows, or fire what changed in
    them earlier; the batch writes their groups.
    """

    batch: int
    at: PaneClock
    windows: OpenWindows
    ends: set[int]
    quiet: set[int]
    changed: set[int]

    def open_after(self, dirty: Collection[int] = ()) -> OpenWindows:
        """The windows that stay open, held by this batch where it wrote their groups."""
        held = {**self.windows.holders, **dict.fromkeys(self.changed, self.batch)}
        holders = {end: holder for end, holder in held.items() if end > self.at.watermark_ms}
        still = self.windows.dirty - self.changed - self.quiet
        fired = (self.windows.fired - self.changed) | self.quiet
        return OpenWindows(holders, (still & holders.keys()) | {*dirty}, fired & holders.keys())


class Panes:
    """The panes of one table's query, from the frame that is started to the rows that go out."""

    def __init__(
        self,
        spec: QuerySpec,
        frame: DataFrame,
        log: OffsetLog,
        files: Files,
        counted: Callable[[DataFrame], DataFrame],
    ) -> None:
        assert spec.late is not None
        self._spec = spec
        self._late = spec.late
        self._log = log
        self._files = files
        self._counted = counted
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
        # A batch that still runs says nothing yet.
        batch = entry.batch if self._ledger.has_version(entry.batch) else entry.batch - 1
        windows = self._ledger.open_windows(batch)
        due = sorted(end for end in windows.holders if end > self._clock(batch).on_time_ms)
        if not due:
            return None
        count = "1 window waits" if len(due) == 1 else f"{len(due):,} windows wait"
        return f"{count} for the watermark to pass {_moment(due[0])}, which only new rows move"

    def schema(self) -> StructType:
        """The columns that the sink gets."""
        nothing = self.frame.sparkSession.createDataFrame([], self.frame.schema)
        at = PaneClock(0, 0, False)
        groups = self._maker.decided(nothing, None, at, ())
        return self._maker.rows(self._maker.panes(groups)).schema

    def writer(self, request: WriteRequest) -> Callable[[DataFrame, int], None]:
        """What Spark calls with the groups that a batch updated."""

        def write(updated: DataFrame, batch: int) -> None:
            self._write(updated, batch, request)

        return write

    def _write(self, frame: DataFrame, batch: int, request: WriteRequest) -> None:
        updated = frame.localCheckpoint()
        turn = self._turn(batch, _ends(updated, END))
        if turn.quiet or turn.changed:
            self._fire(turn, updated, request)
        else:
            self._ledger.write_index(batch, turn.open_after())
        _release(updated)

    def _turn(self, batch: int, ends: set[int]) -> _Turn:
        at, before = self._clock(batch), self._clock(batch - 1)
        windows = self._ledger.open_windows(batch - 1)
        due = {end for end in windows.holders if before.on_time_ms < end <= at.on_time_ms}
        waiting = {end for end in windows.dirty if end <= at.watermark_ms or at.fires_early}
        quiet = due - ends
        return _Turn(batch, at, windows, ends, quiet=quiet, changed=(ends | waiting) - quiet)

    def _fire(self, turn: _Turn, updated: DataFrame, request: WriteRequest) -> None:
        quiet = self._known(updated.sparkSession, turn.windows, turn.quiet)
        panes = None if quiet is None else self._maker.on_time(quiet, turn.at)
        decided = self._decided(turn, updated) if turn.changed else None
        is_fired = decided is not None and (panes is None or self._may_fire(turn))
        if decided is not None and is_fired:
            fired = self._maker.panes(decided)
            panes = fired if panes is None else panes.unionByName(fired)
        assert panes is not None, "a turn without windows"
        rows = self._maker.rows(panes)
        if self._spec.mode is OutputMode.UPDATE:
            rows = newest_panes(rows, self._spec.table.key)
        send = functools.partial(
            self._spec.sink.write_increment,
            self._counted(rows),
            request,
            query=self._query_id(),
            batch=turn.batch,
        )
        if decided is None:
            send()
            self._ledger.write_index(turn.batch, turn.open_after())
        else:
            self._keep(turn, decided, send, is_fired=is_fired)

    def _decided(self, turn: _Turn, updated: DataFrame) -> DataFrame:
        """The groups of changed windows. The first job that needs them computes them, with as many
        tasks, and files of a sink, as any other stage has."""
        spark = updated.sparkSession
        known = self._known(spark, turn.windows, turn.changed)
        shared = turn.ends & turn.windows.holders.keys()
        decided = self._maker.decided(updated, known, turn.at, shared)
        partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        return decided.coalesce(partitions).localCheckpoint(eager=False)

    def _keep(
        self, turn: _Turn, decided: DataFrame, send: Callable[[], None], *, is_fired: bool
    ) -> None:
        """Writes the groups of changed windows; `send` is what goes to the sink first, or beside
        it where that needs none of them."""
        from pyspark.sql import functions as F

        is_open = F.col("end") > moment(decided.sparkSession, F.lit(turn.at.watermark_ms))
        groups = decided.where(is_open).drop("panes")
        keep = functools.partial(self._ledger.write, turn.batch, groups)
        if is_fired:
            send()
            keep()
        else:
            _side_by_side(decided.sparkSession, keep, send)
        dirty: set[int] = set()
        if self._late.kind is LateKind.ALLOW or self._late.early not in (None, EVERY_BATCH):
            dirty = _ends(decided.where(is_open & F.col("is_dirty")), "end")
        now = turn.open_after(dirty)
        self._ledger.write_index(turn.batch, now)
        self._ledger.remember(turn.batch, groups)
        self._ledger.forget_before(turn.batch, now)
        if self._held is not None:
            _release(self._held)
        self._held = decided

    def _known(self, spark: SparkSession, windows: OpenWindows, ends: set[int]) -> DataFrame | None:
        """What the ledger holds of windows, with what they have fired since."""
        known = self._ledger.read(spark, windows, ends)
        fired = windows.fired & ends
        return known if known is None or not fired else self._maker.fired_since(known, fired)

    def _may_fire(self, turn: _Turn) -> bool:
        """Whether a changed window fires; one that is not due yet fires early or not at all."""
        is_early = turn.at.fires_early or self._late.early == EVERY_BATCH
        return is_early or any(end <= turn.at.on_time_ms for end in turn.changed)

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


def _moment(ms: int) -> str:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(sep=" ", timespec="seconds")


def _ends(groups: DataFrame, column: str) -> set[int]:
    """The ends of the windows that groups are in, in milliseconds."""
    from pyspark.sql import functions as F

    found = groups.select(F.unix_millis(F.col(column))).distinct().collect()
    return {int(row[0]) for row in found}


def _side_by_side(spark: SparkSession, one: Callable[[], None], other: Callable[[], None]) -> None:
    """Both, each in the gaps that the other leaves between its tasks; ends when both have."""
    from pyspark import inheritable_thread_target

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(inheritable_thread_target(spark)(one))
        other()
    first.result()


def _release(frame: DataFrame) -> None:
    """Frees what `localCheckpoint` holds; Spark itself waits for a garbage collection."""
    frame._jdf.queryExecution().analyzed().rdd().unpersist(False)
