"""The words of a test. Each is a value; `Harness.run` performs them in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.definitions import duration_ms
from headwater.errors import (
    CheckFailed,
    EventTimeBackwards,
    EventTimeFixed,
    HeadwaterError,
    RowsNotKept,
    UnknownChoice,
)
from headwater.testing.tape import Raw
from headwater.testing.values import (
    Rows,
    are_equal,
    difference,
    moment_ms,
    records,
    shown,
    typed,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from headwater.pipeline import Pipeline
    from headwater.testing.kept import Row
    from headwater.testing.scene import Content, Scene


class Action(ABC):
    """One step of a test."""

    @abstractmethod
    def perform(self, scene: Scene, memory: Memory) -> None:
        """Does it; raises where it cannot be done or does not hold."""


@dataclass
class Memory:
    """What a test remembers between its steps."""

    checked_up_to: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Add(Action):
    source: str
    rows: Any

    def perform(self, scene: Scene, memory: Memory) -> None:
        scene.tape(self.source).add(self.rows)

    def __str__(self) -> str:
        return f"add({self.source!r}, {_brief(self.rows)})"


@dataclass(frozen=True)
class _ReloadLookup(Action):
    lookup: str
    rows: Any

    def perform(self, scene: Scene, memory: Memory) -> None:
        scene.change_lookup(self.lookup, self.rows)

    def __str__(self) -> str:
        return f"reload_lookup({self.lookup!r}, {_brief(self.rows)})"


@dataclass(frozen=True)
class _Train(Action):
    model: str
    refused: str | None

    def perform(self, scene: Scene, memory: Memory) -> None:
        problem = scene.train(self.model).problem
        if self.refused is None and problem is not None:
            raise CheckFailed(f"model {self.model} was refused", found=problem)
        if self.refused is not None and self.refused not in (problem or ""):
            raise CheckFailed(
                f"training of {self.model}",
                found=problem or "it was published",
                expected=f"refused: … {self.refused} …",
            )

    def __str__(self) -> str:
        return f"train({self.model!r})"


@dataclass(frozen=True)
class _Process(Action):
    def perform(self, scene: Scene, memory: Memory) -> None:
        scene.process()

    def __str__(self) -> str:
        return "process()"


@dataclass(frozen=True)
class _AdvanceEventTime(Action):
    source: str
    to: Any

    def perform(self, scene: Scene, memory: Memory) -> None:
        if scene.watermark_delay(self.source) is None:
            raise EventTimeFixed(self.source)
        newest, asked = scene.tape(self.source).newest(), moment_ms(self.to)
        if newest is not None and asked < moment_ms(newest):
            raise EventTimeBackwards(self.source, shown(self.to))
        scene.move_event_time(self.source, self.to)

    def __str__(self) -> str:
        return f"advance_event_time({self.source!r}, {self.to!r})"


@dataclass(frozen=True)
class _Advance(Action):
    duration: str

    def perform(self, scene: Scene, memory: Memory) -> None:
        scene.advance(self.duration)

    def __str__(self) -> str:
        return f"advance({self.duration!r})"


@dataclass(frozen=True)
class _Stop(Action):
    def perform(self, scene: Scene, memory: Memory) -> None:
        scene.stop()

    def __str__(self) -> str:
        return "stop()"


@dataclass(frozen=True)
class _Restart(Action):
    pipeline: Pipeline | None = None

    def perform(self, scene: Scene, memory: Memory) -> None:
        scene.restart(self.pipeline)

    def __str__(self) -> str:
        return "restart()" if self.pipeline is None else f"restart(<{self.pipeline.name}>)"


CRASH_POINTS = ("before_sink", "after_sink")


@dataclass(frozen=True)
class _Crash(Action):
    point: str
    tables: tuple[str, ...]

    def perform(self, scene: Scene, memory: Memory) -> None:
        tables = self.tables or tuple(scene.graph.tables)
        if self.point == "before_sink":
            scene.crash_before_sink(tables)
        else:
            scene.crash_after_sink(tables)

    def __str__(self) -> str:
        return f"crash({', '.join(map(repr, (self.point, *self.tables)))})"


@dataclass(frozen=True)
class _ExpectFailure(Action):
    code: str
    contains: str | None

    def perform(self, scene: Scene, memory: Memory) -> None:
        try:
            scene.process()
        except HeadwaterError as failure:
            scene.kill()
            text = str(failure)
            if failure.code == self.code and (self.contains or "") in text:
                return
            raise CheckFailed(f"another failure than {self.code}", found=text) from failure
        raise CheckFailed(f"no failure, where {self.code} was expected")

    def __str__(self) -> str:
        return f"expect_failure({self.code!r})"


@dataclass(frozen=True)
class _Check(Action):
    table: str
    rows: Any
    contains: bool
    ordered: bool
    only_new: bool
    columns: tuple[str, ...]

    def perform(self, scene: Scene, memory: Memory) -> None:
        found = self._found(scene, memory)
        names, schema = self._expected_columns(found.schema)
        what = f"check of {self.table}"
        expected = typed(records(self.rows, names, what=what), schema, what=what)
        positions = [found.schema.names.index(name) for name in names]
        rows = [tuple(row[i] for i in positions) for row in found.rows]
        if self.ordered:
            rows = [row for row in rows if not self.contains or _is_in(row, expected)]
            is_right = len(rows) == len(expected) and all(map(are_equal, expected, rows))
            missing, extra = difference(expected, rows)
        else:
            missing, extra = difference(expected, rows)
            extra = [] if self.contains else extra
            is_right = not missing and not extra
        if not is_right:
            order = None if missing or extra else ("the same rows in another order", rows)
            raise CheckFailed(
                f"table {self.table} is not what was expected",
                found=_diff(names, missing, extra, order),
            )

    def _found(self, scene: Scene, memory: Memory) -> Content:
        content = scene.content(self.table)
        if self.table not in scene.kept:
            if self.only_new:
                raise RowsNotKept(self.table, "its own sink, which does not tell old from new")
            return content
        kept = scene.kept[self.table]
        since = memory.checked_up_to.get(self.table, -1)
        memory.checked_up_to[self.table] = kept.last
        if self.only_new:
            return type(content)(content.schema, kept.after(since))
        return content

    def _expected_columns(self, schema: StructType) -> tuple[list[str], StructType]:
        from pyspark.sql.types import StructType

        names = list(self.columns)
        if not names:
            rows = [] if isinstance(self.rows, str | Path) else list(self.rows)
            mapped = [row for row in rows if isinstance(row, Mapping)]
            used = {name for row in mapped for name in row}
            names = [name for name in schema.names if name in used or not mapped]
        for name in names:
            if name not in schema.names:
                raise UnknownChoice("columns", name, schema.names)
        return names, StructType([schema[name] for name in names])

    def __str__(self) -> str:
        word = "check_new" if self.only_new else "check"
        flags = [name for name in ("contains", "ordered") if getattr(self, name)]
        options = "".join(f", {name}=True" for name in flags)
        return f"{word}({self.table!r}, {_brief(self.rows)}{options})"


@dataclass(frozen=True)
class _CheckLate(_Check):
    """Late rows: a test seldom names all of their columns."""

    def _expected_columns(self, schema: StructType) -> tuple[list[str], StructType]:
        names, found = super()._expected_columns(schema)
        plain = [] if isinstance(self.rows, str | Path) else list(self.rows)
        if self.columns or not plain or isinstance(plain[0], Mapping):
            return names, found
        names = names[: len(plain[0])]
        return names, type(found)([found[name] for name in names])

    def __str__(self) -> str:
        return f"check_late({self.table.removesuffix('__late')!r}, {_brief(self.rows)})"


@dataclass(frozen=True)
class _CheckValue(Action):
    """A figure of a table's query."""

    word: str
    table: str
    expected: Any
    read: Callable[[Scene], Any]

    def perform(self, scene: Scene, memory: Memory) -> None:
        found = self.read(scene)
        if found != self.expected:
            raise CheckFailed(
                f"{self.word} of {self.table}", found=str(found), expected=str(self.expected)
            )

    def __str__(self) -> str:
        return f"check_{self.word}({self.table!r}, {self.expected!r})"


# The words


def add(source: str, rows: Rows | Iterable[Raw]) -> Action:
    """Rows arrive at a source: tuples in the order of its columns, mappings, a markdown table, a
    file of JSON lines, CSV or Parquet, or `raw(…)` records. Nothing is processed yet."""
    return _Add(source, rows if isinstance(rows, str | Path) else list(rows))


def reload_lookup(lookup: str, rows: Rows) -> Action:
    """A lookup holds other rows. One with `reload` is read anew at once, as if its interval had
    passed; others are when the queries start again."""
    return _ReloadLookup(lookup, _listed(rows))


def train(model: str, *, refused: str | None = None) -> Action:
    """A model is trained at once on what its table holds, as if its time had come, and published;
    with `refused` it is not, for a reason that contains this text."""
    return _Train(model, refused)


def process() -> Action:
    """Every table processes everything there is.

    A table with a processing-time trigger moves the clock from trigger to trigger until one finds
    nothing to do.
    """
    return _Process()


def advance_event_time(source: str, to: Any) -> Action:
    """A source's event time moves on without a row; the watermark follows, and what it closes is
    processed."""
    return _AdvanceEventTime(source, to)


def advance(duration: str) -> Action:
    """The processing-time clock moves; every trigger on the way fires once, data or not."""
    duration_ms(duration)
    return _Advance(duration)


def stop() -> Action:
    """The queries finish their batches and end."""
    return _Stop()


def restart(pipeline: Pipeline | None = None) -> Action:
    """The queries start on their checkpoints, with another definition where one is given."""
    return _Restart(pipeline)


def crash(point: str = "after_sink", *tables: str) -> Action:
    """What is pending is processed, and the tables (all, or those named) die on the way.

    `before_sink`: the batch is in the offset log and not in the sink. `after_sink`: the last batch
    is in the sink and not in the commit log, so the next start runs it again.
    """
    if point not in CRASH_POINTS:
        raise UnknownChoice("crash point", point, CRASH_POINTS)
    return _Crash(point, tables)


def expect_failure(code: str, *, contains: str | None = None) -> Action:
    """What is pending is processed and fails with this code; the queries end."""
    return _ExpectFailure(code, contains)


def check(
    table: str,
    rows: Rows,
    *,
    contains: bool = False,
    ordered: bool = False,
    columns: Sequence[str] = (),
) -> Action:
    """A table's result is these rows: in append mode all that was written, in complete mode the
    last whole result, in update mode the last row of every key.

    Mappings, or `columns`, compare those columns only. `contains` allows more rows.
    """
    return _Check(table, _listed(rows), contains, ordered, False, tuple(columns))


def check_new(
    table: str, rows: Rows, *, contains: bool = False, columns: Sequence[str] = ()
) -> Action:
    """The rows that were written since the table was last checked, batch by batch as written."""
    return _Check(table, _listed(rows), contains, False, True, tuple(columns))


def check_rejected(source: str, rows: Rows) -> Action:
    """The rejected records of a source: `(reason, raw)`, or mappings with one of them."""
    return _Check(f"{source}__rejected", _listed(rows), False, False, False, ())


def check_late(table: str, rows: Rows, *, columns: Sequence[str] = ()) -> Action:
    """The late rows of a table, one per missed window: tuples begin with the row's own columns
    and may leave out the rest (`window`, `watermark`, `batch`)."""
    return _CheckLate(f"{table}__late", _listed(rows), False, False, False, tuple(columns))


def check_watermark(table: str, at: Any) -> Action:
    """The watermark that a table's last batch had; None before the first batch."""
    expected = None if at is None else moment_ms(at)
    return _CheckValue("watermark", table, expected, lambda scene: scene.watermark_ms(table))


def check_state(table: str, rows: int) -> Action:
    """How many rows a table's stateful operators hold."""

    def read(scene: Scene) -> int:
        operators = (scene.progress(table) or {}).get("stateOperators") or []
        return sum(int(operator["numRowsTotal"]) for operator in operators)

    return _CheckValue("state", table, rows, read)


def check_progress(table: str, expected: Mapping[str, Any]) -> Action:
    """Some entries of the last progress that Spark reported for a table."""

    def read(scene: Scene) -> dict[str, Any]:
        progress = scene.progress(table) or {}
        return {name: progress.get(name) for name in expected}

    return _CheckValue("progress", table, dict(expected), read)


def uses_raw(actions: Iterable[Action]) -> bool:
    """Whether a script adds records that may be rejected."""
    return any(
        isinstance(action, _Add)
        and not isinstance(action.rows, str | Path)
        and any(isinstance(row, Raw) for row in action.rows)
        for action in actions
    )


def _is_in(row: Row, rows: Sequence[Row]) -> bool:
    return any(are_equal(row, other) for other in rows)


def _listed(rows: Rows) -> Any:
    return rows if isinstance(rows, str | Path) else list(rows)


def _brief(rows: Any) -> str:
    if isinstance(rows, Path):
        return repr(rows.name)
    if isinstance(rows, str):
        return "a markdown table"
    if len(rows) == 1:
        return repr(rows)
    return f"{len(rows)} rows"


def _diff(
    names: Sequence[str],
    missing: Sequence[Row],
    extra: Sequence[Row],
    order: tuple[str, Sequence[Row]] | None,
) -> str:
    lines = [f"  {' | '.join(names)}"]
    lines += [f"- {' | '.join(map(shown, row))}" for row in missing]
    lines += [f"+ {' | '.join(map(shown, row))}" for row in extra]
    if order is not None:
        text, rows = order
        lines += [text, *(f"  {' | '.join(map(shown, row))}" for row in rows)]
    return "\n".join(lines)
