"""Late rows: counted and kept out of the result in every output mode, and handed over as data.

Spark drops a late row inside its operator, without a count of rows, and in complete mode not at
all. Here the rows pass a watch just before the operator: it counts them, keeps a bounded number of
the late ones for whoever listens to the query's progress, and lets only the others in. The watch is
part of Spark's own plan, so no row passes through Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headwater.event_time.entries import SESSION_WINDOW, TIME_WINDOW, Entry, entering, entries_of
from headwater.event_time.plans import (
    analyzed,
    column_of,
    frame_of,
    items,
    part_at,
    with_part,
)
from headwater.events import LateCount
from headwater.schemas import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WATCH = "__headwater_late_"
"""Before the number of an entry: the name under which Spark reports what its watch saw."""
KEPT = 5_000
"""So many late rows of one batch come with the progress; of more, the batch is read again."""
LATE_ROWS = "late_rows"
WINDOW, WATERMARK, BATCH, MERGED, INPUT = "window", "watermark", "batch", "merged", "input"
"""Columns of a late table beside those of the rows."""


def watched_entries(frame: DataFrame) -> list[Entry]:
    """The entries of a query at which a row can be late."""
    return [entry for entry in entries_of(frame) if entry.moment is not None]


def watched(
    frame: DataFrame,
    watermark: Column,
    *,
    newest: Column | None,
    keeps: bool,
    sees_rows: bool = False,
) -> DataFrame:
    """The query with a watch at every entry.

    `newest` is the newest event time of earlier batches, where it is known. `keeps` also hands the
    late rows over. `sees_rows`: any row behind the watermark is late, not only those whose window
    is closed.
    """
    for number, entry in enumerate(watched_entries(frame)):
        watch = _RowsBelow if entry.rows_path is not None else _Rows
        rows = watch(frame, entry, watermark, sees_rows=sees_rows)
        seen = rows.frame.observe(f"{WATCH}{number}", *rows.metrics(newest, keeps=keeps))
        frame = rows.let_in(frame, seen)
    return frame


def _replaced(frame: DataFrame, path: tuple[int, ...], part: DataFrame) -> DataFrame:
    plan = with_part(frame.sparkSession, analyzed(frame), path, analyzed(part))
    return frame_of(frame.sparkSession, plan)


def late_rows(
    frame: DataFrame, number: int, watermark: Column, *, sees_rows: bool = False
) -> DataFrame:
    """The late rows at an entry, as they go into the late table, over all that `frame` reads."""
    entry = watched_entries(frame)[number]
    rows = _Rows(frame, entry, watermark, sees_rows=sees_rows)
    return rows.frame.where(rows.is_late).select(*rows.columns())


def without_late(batch: DataFrame, stream: DataFrame, late: DataFrame) -> DataFrame:
    """The same query over a bounded input, less the pairs of row and window that were late.

    What a stream with late rows has to give: every pair is counted there or is in the late table,
    never both, never neither.
    """
    from pyspark.sql import functions as F

    entries = watched_entries(stream)
    late = late.where(~F.col(MERGED))
    for entry in entries:
        part = late
        if len(entries) > 1:
            part = late.where(F.col(INPUT) == input_name(entry.side))
        inside = part_at(analyzed(batch), entry.path)
        names = iter(_late_names(inside))
        columns = [
            F.col(WINDOW if _is_window(attribute) else quoted(next(names)))
            for attribute in items(inside.output())
        ]
        kept = frame_of(batch.sparkSession, inside).exceptAll(part.select(*columns))
        batch = _replaced(batch, entry.path, kept)
    return batch


def only_windows(batch: DataFrame, entry: Entry, windows: DataFrame) -> DataFrame:
    """The same query over a bounded input, for some of its windows."""
    inside = part_at(analyzed(batch), entry.path)
    moment = next(attribute for attribute in items(inside.output()) if _is_window(attribute))
    of_rows = column_of(batch.sparkSession, moment)
    wanted = windows.withColumnRenamed(WINDOW, "__wanted")
    rows = frame_of(batch.sparkSession, inside)
    kept = rows.join(wanted, of_rows == wanted["__wanted"], "left_semi")
    return _replaced(batch, entry.path, kept)


def input_name(side: int) -> str:
    """Which side of a join late rows came from."""
    return "left" if side == 0 else "right"


def _late_names(plan: Any) -> list[str]:
    """Names of a row's own columns in a late table: ours come first, and a name stands once."""
    taken, names = {WINDOW, WATERMARK, BATCH, MERGED, INPUT}, []
    for attribute in items(plan.output()):
        if _is_window(attribute):
            continue
        name = str(attribute.name())
        while name.lower() in taken:
            name = f"{name}_"
        taken.add(name.lower())
        names.append(name)
    return names


def _is_window(attribute: Any) -> bool:
    return any(attribute.metadata().contains(mark) for mark in (TIME_WINDOW, SESSION_WINDOW))


def count_of(observed: Mapping[str, Mapping[str, Any]]) -> LateCount | None:
    """What the watches saw, from the metrics of a progress; None where there was none."""
    seen = [figures for name, figures in observed.items() if name.startswith(WATCH)]
    if not seen:
        return None
    total = LateCount()
    for figures in seen:
        total += LateCount(**{name: int(figures.get(name) or 0) for name in _COUNTS})
    return total


_COUNTS = ("rows", "out_of_order", "late", "late_windows")


class _Rows:
    """The rows that enter at one entry, and what can be said of each."""

    def __init__(
        self, frame: DataFrame, entry: Entry, watermark: Column, *, sees_rows: bool
    ) -> None:
        spark = frame.sparkSession
        self.entry = entry
        self.watermark = watermark
        self._plan = entering(frame, entry)
        self.frame = frame_of(spark, self._plan)
        self._moment = column_of(spark, entry.moment)
        self._spark = spark
        self._sees_rows = sees_rows
        self._attributes = list(items(self._plan.output()))

    def let_in(self, frame: DataFrame, seen: DataFrame) -> DataFrame:
        """The query with only those of the `seen` rows that are not late."""
        return _replaced(frame, self.entry.path, seen.where(~self.is_late))

    @property
    def event_time(self) -> Column | None:
        """When a row happened; None where only its window is left of it."""
        window = self.entry.window
        if window is not None:
            names = {str(a.exprId()) for a in self._attributes}
            used = {str(a.exprId()) for a in items(window.time.references().toSeq())}
            return column_of(self._spark, window.time) if used <= names else None
        return self._moment["start"] if self.entry.is_session else self._moment

    @property
    def is_late(self) -> Column:
        from pyspark.sql import functions as F

        event_time = self.event_time
        is_window = self.entry.window is not None or "end" in self._fields()
        if is_window and not self.entry.is_session:
            late = self._moment["end"] <= self.watermark
            if self._sees_rows and event_time is not None:
                late = late | (event_time <= self.watermark)
        else:
            assert event_time is not None
            late = event_time <= self.watermark
        return F.coalesce(late, F.lit(False))

    @property
    def is_first_window(self) -> Column | None:
        """Whether this is the first of the windows that a row falls into; None: it has but one."""
        from pyspark.sql import functions as F

        window, event_time = self.entry.window, self.event_time
        if window is None or window.slide_us == window.duration_us or event_time is None:
            return None
        slide = F.make_dt_interval(secs=F.lit(window.slide_us / 1_000_000))
        return self._moment["end"] - slide <= event_time

    def metrics(self, newest: Column | None, *, keeps: bool) -> list[Column]:
        from pyspark.sql import functions as F

        first = self.is_first_window
        is_row = F.lit(True) if first is None else first
        event_time = self.event_time
        is_behind = F.lit(False)
        if newest is not None and event_time is not None:
            is_behind = F.coalesce(event_time < newest, F.lit(False))
        found = [
            (F.count(F.lit(1)) if first is None else F.count_if(is_row)).alias("rows"),
            F.count_if(is_row & is_behind & ~self.is_late).alias("out_of_order"),
            F.count_if(is_row & self.is_late).alias("late"),
            F.count_if(self.is_late).alias("late_windows"),
        ]
        if keeps:
            row = F.struct(*self.columns())
            order = F.when(self.is_late, F.xxhash64(self._moment))
            found.append(F.max_by(row, order, KEPT).alias(LATE_ROWS))
        return found

    def columns(self) -> list[Column]:
        """The row's own columns, then the window that it missed."""
        from pyspark.sql import functions as F

        own = [attribute for attribute in self._attributes if not _is_window(attribute)]
        found = [
            column_of(self._spark, attribute).alias(name)
            for attribute, name in zip(own, _late_names(self._plan), strict=True)
        ]
        window = self._moment if "end" in self._fields() else None
        nothing = F.lit(None).cast("struct<start: timestamp, end: timestamp>")
        found.append((nothing if window is None else window).alias(WINDOW))
        return found

    def _fields(self) -> list[str]:
        kind = self.entry.moment.dataType()  # type: ignore[union-attr]
        return [str(n) for n in kind.fieldNames()] if str(kind.typeName()) == "struct" else []


class _RowsBelow:
    """The rows that enter time windows, before the windows are made of them.

    A window `[end - duration, end)` is closed when `end <= watermark`; ends are a slide apart. So a
    row has missed a window when it is older than a moment that depends on the watermark alone: the
    last end that the watermark has passed. The watch compares timestamps, and Spark goes on to
    make windows and to aggregate in one go.
    """

    def __init__(
        self, frame: DataFrame, entry: Entry, watermark: Column, *, sees_rows: bool
    ) -> None:
        assert entry.rows_path is not None
        assert entry.window is not None
        self.entry = entry
        self.window = entry.window
        self._spark = frame.sparkSession
        self._watermark = watermark
        self._sees_rows = sees_rows
        self._plan = part_at(analyzed(frame), entry.rows_path)
        self.frame = frame_of(self._spark, self._plan)
        self._time = column_of(self._spark, entry.window.time)

    @property
    def is_late(self) -> Column:
        """Whether a row has missed at least one of its windows."""
        from pyspark.sql import functions as F

        late = self._time < F.timestamp_micros(self._last_end_us())
        if self._sees_rows:
            late = late | (self._time <= self._watermark)
        return F.coalesce(late, F.lit(False))

    def let_in(self, frame: DataFrame, seen: DataFrame) -> DataFrame:
        assert self.entry.rows_path is not None
        is_sliding = self.window.slide_us != self.window.duration_us
        if not is_sliding:
            return _replaced(frame, self.entry.rows_path, seen.where(~self.is_late))
        if self._sees_rows:
            seen = seen.where(~(self._time <= self._watermark))
        # A row may have missed some of its windows: they are let in one by one.
        frame = _replaced(frame, self.entry.rows_path, seen)
        windows = frame_of(self._spark, part_at(analyzed(frame), self.entry.path))
        end = column_of(self._spark, self.entry.moment)["end"]
        return _replaced(frame, self.entry.path, windows.where(end > self._watermark))

    def metrics(self, newest: Column | None, *, keeps: bool) -> list[Column]:
        from pyspark.sql import functions as F

        is_late = self.is_late
        is_behind = F.lit(False)
        if newest is not None:
            is_behind = F.coalesce(self._time < newest, F.lit(False))
        missed = F.sum(F.when(is_late, self._missed())) if self._is_sliding else F.count_if(is_late)
        found = [
            F.count(F.lit(1)).alias("rows"),
            F.count_if(is_behind & ~is_late).alias("out_of_order"),
            F.count_if(is_late).alias("late"),
            missed.alias("late_windows"),
        ]
        if keeps:
            order = F.when(is_late, F.xxhash64(self._time))
            row = F.when(is_late, F.struct(*self._columns()))
            found.append(F.max_by(row, order, KEPT).alias(LATE_ROWS))
        return found

    def _columns(self) -> list[Column]:
        own = [
            column_of(self._spark, attribute).alias(name)
            for attribute, name in zip(
                items(self._plan.output()), _late_names(self._plan), strict=True
            )
        ]
        return [*own, self._time.alias(_TIME)]

    @property
    def _is_sliding(self) -> bool:
        return self.window.slide_us != self.window.duration_us

    def _last_end_us(self) -> Column:
        """The last end of a window that the watermark has passed; Spark folds it to a literal."""
        from pyspark.sql import functions as F

        slide, phase = self.window.slide_us, self._phase_us
        passed = F.unix_micros(self._watermark)
        return passed - F.pmod(passed - F.lit(phase), F.lit(slide))

    def _missed(self) -> Column:
        """How many windows a late row has missed."""
        from pyspark.sql import functions as F

        slide, time = F.lit(self.window.slide_us), F.unix_micros(self._time.cast("timestamp"))
        first_end = time + slide - F.pmod(time - F.lit(self._phase_us), slide)
        closed = F.floor((self._last_end_us() - first_end) / slide) + 1
        of_row = F.floor((time + F.lit(self.window.duration_us) - first_end) / slide) + 1
        if not self._sees_rows:
            return F.least(closed, of_row)
        return F.when(self._time <= self._watermark, of_row).otherwise(F.least(closed, of_row))

    @property
    def _phase_us(self) -> int:
        return (self.window.start_us + self.window.duration_us) % self.window.slide_us


_TIME = "__time"


def with_missed_windows(
    rows: DataFrame, entry: Entry, watermark: Column, *, sees_rows: bool
) -> DataFrame:
    """Late rows that a watch below the windows kept, one for each window that they missed."""
    from pyspark.sql import functions as F

    if _TIME not in rows.columns:
        return rows
    shape = entry.window
    assert shape is not None
    length, slide, start = (
        f"{us} microseconds" for us in (shape.duration_us, shape.slide_us, shape.start_us)
    )
    made = rows.withColumn(WINDOW, F.window(_TIME, length, slide, start))
    is_missed = F.col(WINDOW)["end"] <= watermark
    if sees_rows:
        is_missed = is_missed | (F.col(_TIME) <= watermark)
    return made.where(is_missed).drop(_TIME)
