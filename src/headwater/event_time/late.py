"""Late rows: which they are, and the tables they are kept in.

Spark drops a late row inside its operator, without a count of rows, and in complete mode not at
all. Here a row is judged just before the operator, the same in every output mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from headwater.event_time.entries import SESSION_WINDOW, TIME_WINDOW, Entry, entering, entries_of
from headwater.event_time.plans import (
    analyzed,
    column_of,
    frame_of,
    items,
    part_at,
    with_part,
)
from headwater.schemas import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WINDOW, WATERMARK, BATCH, MERGED, INPUT = "window", "watermark", "batch", "merged", "input"
"""Columns of a late table beside those of the rows."""


_entries: WeakKeyDictionary[DataFrame, list[Entry]] = WeakKeyDictionary()
"""Of frames that are in use: looking through a plan takes hundreds of calls into the JVM."""


def watched_entries(frame: DataFrame) -> list[Entry]:
    """The entries of a query at which a row can be late."""
    if frame not in _entries:
        _entries[frame] = [entry for entry in entries_of(frame) if entry.moment is not None]
    return _entries[frame]


def replaced(frame: DataFrame, path: tuple[int, ...], part: DataFrame) -> DataFrame:
    plan = with_part(frame.sparkSession, analyzed(frame), path, analyzed(part))
    return frame_of(frame.sparkSession, plan)


def late_rows(
    frame: DataFrame, number: int, watermark: Column, *, sees_rows: bool = False
) -> DataFrame:
    """The late rows at an entry, as they go into the late table, over all that `frame` reads."""
    entry = watched_entries(frame)[number]
    rows = EnteringRows(frame, entry, watermark, sees_rows=sees_rows)
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
        names = iter(late_names(inside))
        columns = [
            F.col(WINDOW if _is_window(attribute) else quoted(next(names)))
            for attribute in items(inside.output())
        ]
        kept = frame_of(batch.sparkSession, inside).exceptAll(part.select(*columns))
        batch = replaced(batch, entry.path, kept)
    return batch


def only_windows(batch: DataFrame, entry: Entry, windows: DataFrame) -> DataFrame:
    """The same query over a bounded input, for some of its windows."""
    inside = part_at(analyzed(batch), entry.path)
    moment = next(attribute for attribute in items(inside.output()) if _is_window(attribute))
    of_rows = column_of(batch.sparkSession, moment)
    wanted = windows.withColumnRenamed(WINDOW, "__wanted")
    rows = frame_of(batch.sparkSession, inside)
    kept = rows.join(wanted, of_rows == wanted["__wanted"], "left_semi")
    return replaced(batch, entry.path, kept)


def input_name(side: int) -> str:
    """Which side of a join late rows came from."""
    return "left" if side == 0 else "right"


def late_names(plan: Any) -> list[str]:
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


class EnteringRows:
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

    def columns(self) -> list[Column]:
        """The row's own columns, then the window that it missed."""
        from pyspark.sql import functions as F

        own = [attribute for attribute in self._attributes if not _is_window(attribute)]
        found = [
            column_of(self._spark, attribute).alias(name)
            for attribute, name in zip(own, late_names(self._plan), strict=True)
        ]
        window = self._moment if "end" in self._fields() else None
        nothing = F.lit(None).cast("struct<start: timestamp, end: timestamp>")
        found.append((nothing if window is None else window).alias(WINDOW))
        return found

    def _fields(self) -> list[str]:
        assert self.entry.moment is not None
        kind = self.entry.moment.dataType()
        return [str(n) for n in kind.fieldNames()] if str(kind.typeName()) == "struct" else []


TIME = "__time"


def with_missed_windows(
    rows: DataFrame, entry: Entry, watermark: Column, *, sees_rows: bool
) -> DataFrame:
    """Late rows that a watch below the windows kept, one for each window that they missed."""
    from pyspark.sql import functions as F

    if TIME not in rows.columns:
        return rows
    shape = entry.window
    assert shape is not None
    length, slide, start = (
        f"{us} microseconds" for us in (shape.duration_us, shape.slide_us, shape.start_us)
    )
    made = rows.withColumn(WINDOW, F.window(TIME, length, slide, start))
    is_missed = F.col(WINDOW)["end"] <= watermark
    if sees_rows:
        is_missed = is_missed | (F.col(TIME) <= watermark)
    return made.where(is_missed).drop(TIME)
