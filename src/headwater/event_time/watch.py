"""The watch: who may enter an operator with state.

It stands in the query as a filter. Rows in time pass; late ones are counted, told to the driver
where they are to be kept, and stay out. It costs what a comparison of two timestamps costs: see
`telling` for how the rest is left to the rows that it is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headwater.event_time.entries import Entry
from headwater.event_time.late import (
    TIME,
    EnteringRows,
    late_names,
    replaced,
    watched_entries,
)
from headwater.event_time.plans import analyzed, column_of, frame_of, items, part_at
from headwater.event_time.watermark import steady
from headwater.events import LateCount
from headwater.jvm.telling import Counter, Ear, ToldRows, can_be_told, rows_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class Moments:
    """What a watch goes by, all constant within a batch: its number, its watermark, and the newest
    event time of earlier batches where it is known."""

    batch: Column
    watermark: Column
    newest: Column | None
    on_time: Column | None = None
    """The watermark as the source declared it, where lateness is allowed behind it."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What the watches of a query heard of one batch, by entry."""

    count: LateCount
    told: tuple[ToldRows, ...]


class Watch:
    """The watches at all entries of one query while it runs.

    `keeps` says whether late rows are told. With `sees_rows` any row behind the watermark is late,
    not only those whose window is closed.
    """

    def __init__(
        self, frame: DataFrame, moments: Moments, *, keeps: bool, sees_rows: bool = False
    ) -> None:
        self.entries = watched_entries(frame)
        self._places = []
        for entry in self.entries:
            kind = _BelowWindows if entry.rows_path is not None else _AtOperator
            place = _Place(kind(frame, entry, moments.watermark, sees_rows=sees_rows), keeps=keeps)
            frame = place.guarded(frame, moments)
            self._places.append(place)
        self.frame = frame

    def heard(self, batch: int) -> Heard:
        """What there is to tell of a batch that has ended."""
        count = sum((place.count() for place in self._places), LateCount())
        return Heard(count, tuple(place.ear.heard(batch) for place in self._places))

    def rows(self, entry: int, told: ToldRows) -> DataFrame:
        """Late rows of an entry that were told, with their own columns and their time."""
        return self._places[entry].rows(told)


class _Rows(Protocol):
    """Rows at some place of a query, and what can be said of each."""

    entry: Entry
    frame: DataFrame

    @property
    def is_late(self) -> Column: ...
    def is_behind(self, watermark: Column) -> Column:
        """Whether a row would be late by another watermark."""

    @property
    def event_time(self) -> Column | None: ...
    @property
    def is_first(self) -> Column:
        """Whether this is the one place at which an input row counts."""

    @property
    def missed(self) -> Column:
        """How many windows a late row has missed here."""

    def told_columns(self) -> list[Column]: ...
    def outcome(self, stays_out: Column) -> Column:
        """Whether a late row passes all the same; `stays_out` is false and has to be evaluated."""

    def admitted(self, frame: DataFrame, passes: Column) -> DataFrame:
        """The query with only the rows that pass."""


class _Place:
    """One entry: its counters and its ear."""

    def __init__(self, rows: _Rows, *, keeps: bool) -> None:
        spark = rows.frame.sparkSession
        self._rows = rows
        self._keeps = keeps
        self._all, self._behind = Counter(spark), Counter(spark)
        self._late, self._missed = Counter(spark), Counter(spark)
        self._refired = Counter(spark)
        self.ear = Ear(spark)
        self._columns = rows.told_columns()
        self._schema = rows.frame.select(*self._columns).schema

    def guarded(self, frame: DataFrame, moments: Moments) -> DataFrame:
        from pyspark.sql import functions as F

        rows, first = self._rows, self._rows.is_first.cast("long")
        stays_out = self._late.counted(first) | self._missed.counted(rows.missed)
        if self._keeps:
            stays_out = stays_out | self._told(moments)
        verdict = F.when(rows.is_late, rows.outcome(stays_out))
        if moments.on_time is not None:
            is_behind = rows.is_behind(moments.on_time)
            verdict = verdict.when(is_behind, ~self._refired.counted(first))
        if moments.newest is not None and rows.event_time is not None:
            spark = rows.frame.sparkSession
            newest = F.timestamp_micros(steady(spark, F.unix_micros(moments.newest)))
            verdict = verdict.when(rows.event_time < newest, ~self._behind.counted(first))
        counted = ~self._all.counted(first)
        return rows.admitted(frame, counted & verdict.otherwise(F.lit(True)))

    def _told(self, moments: Moments) -> Column:
        from pyspark.sql import functions as F

        batch = steady(self._rows.frame.sparkSession, moments.batch)
        if not can_be_told(self._schema):
            return self.ear.noted(batch)
        return self.ear.told(batch, F.struct(*self._columns), self._rows.missed)

    def count(self) -> LateCount:
        return LateCount(
            rows=self._all.since_last(),
            out_of_order=self._behind.since_last(),
            refired=self._refired.since_last(),
            late=self._late.since_last(),
            late_windows=self._missed.since_last(),
        )

    def rows(self, told: ToldRows) -> DataFrame:
        return rows_of(self._rows.frame.sparkSession, told, self._schema)


class _AtOperator(EnteringRows):
    """Rows as they enter the operator: with windows, where it has them."""

    @property
    def is_first(self) -> Column:
        from pyspark.sql import functions as F

        first = self.is_first_window
        return F.lit(True) if first is None else first

    def is_behind(self, watermark: Column) -> Column:
        return self._moment["end"] <= watermark

    @property
    def missed(self) -> Column:
        from pyspark.sql import functions as F

        return F.lit(1)

    def told_columns(self) -> list[Column]:
        return self.columns()

    def outcome(self, stays_out: Column) -> Column:
        return stays_out

    def admitted(self, frame: DataFrame, passes: Column) -> DataFrame:
        return replaced(frame, self.entry.path, self.frame.where(passes))


class _BelowWindows:
    """Rows that enter time windows, before the windows are made of them.

    A window `[end - duration, end)` is closed when `end <= watermark`; ends are a slide apart. So a
    row has missed a window when it is older than a moment that depends on the watermark alone: the
    last end that the watermark has passed. Two timestamps are compared, and Spark goes on to make
    windows and to aggregate in one go.
    """

    def __init__(
        self, frame: DataFrame, entry: Entry, watermark: Column, *, sees_rows: bool
    ) -> None:
        assert entry.rows_path is not None
        assert entry.window is not None
        self.entry = entry
        self._window = entry.window
        self._spark = frame.sparkSession
        self._watermark = watermark
        self._sees_rows = sees_rows
        self._plan = part_at(analyzed(frame), entry.rows_path)
        self.frame = frame_of(self._spark, self._plan)
        self._time = column_of(self._spark, entry.window.time)

    @property
    def event_time(self) -> Column | None:
        return self._time

    @property
    def is_first(self) -> Column:
        from pyspark.sql import functions as F

        return F.lit(True)

    @property
    def is_late(self) -> Column:
        """Whether a row has missed at least one of its windows."""
        from pyspark.sql import functions as F

        late = self.is_behind(self._watermark)
        if self._sees_rows:
            late = late | (self._time <= self._watermark)
        return F.coalesce(late, F.lit(False))

    def is_behind(self, watermark: Column) -> Column:
        from pyspark.sql import functions as F

        return self._time < F.timestamp_micros(steady(self._spark, self._last_end_us(watermark)))

    @property
    def missed(self) -> Column:
        from pyspark.sql import functions as F

        if not self._is_sliding:
            return F.lit(1)
        slide, time = F.lit(self._window.slide_us), F.unix_micros(self._time.cast("timestamp"))
        first_end = time + slide - F.pmod(time - F.lit(self._phase_us), slide)
        closed = F.floor((self._last_end_us(self._watermark) - first_end) / slide) + 1
        of_row = F.floor((time + F.lit(self._window.duration_us) - first_end) / slide) + 1
        if not self._sees_rows:
            return F.least(closed, of_row)
        return F.when(self._time <= self._watermark, of_row).otherwise(F.least(closed, of_row))

    def told_columns(self) -> list[Column]:
        own = zip(items(self._plan.output()), late_names(self._plan), strict=True)
        columns = [column_of(self._spark, attribute).alias(name) for attribute, name in own]
        return [*columns, self._time.alias(TIME)]

    def outcome(self, stays_out: Column) -> Column:
        """A row may have missed some of its windows only: it passes, and they are let in one by
        one."""
        from pyspark.sql import functions as F

        if not self._is_sliding:
            return stays_out
        if not self._sees_rows:
            return ~stays_out
        return F.when(self._time <= self._watermark, stays_out).otherwise(~stays_out)

    def admitted(self, frame: DataFrame, passes: Column) -> DataFrame:
        assert self.entry.rows_path is not None
        frame = replaced(frame, self.entry.rows_path, self.frame.where(passes))
        if not self._is_sliding:
            return frame
        windows = frame_of(self._spark, part_at(analyzed(frame), self.entry.path))
        end = column_of(self._spark, self.entry.moment)["end"]
        return replaced(frame, self.entry.path, windows.where(end > self._watermark))

    @property
    def _is_sliding(self) -> bool:
        return self._window.slide_us != self._window.duration_us

    def _last_end_us(self, watermark: Column) -> Column:
        """The last end of a window that a watermark has passed; Spark folds it to a literal."""
        from pyspark.sql import functions as F

        passed = F.unix_micros(watermark)
        return passed - F.pmod(passed - F.lit(self._phase_us), F.lit(self._window.slide_us))

    @property
    def _phase_us(self) -> int:
        return (self._window.start_us + self._window.duration_us) % self._window.slide_us
