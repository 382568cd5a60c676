"""Crashes of a real driver, at named points, into real sinks: afterwards every table holds what
it holds without a crash.

The driver is another process. This one watches the checkpoint of a table, kills the driver when
the point is reached, and starts it again. Several crashes make a round; at its end the driver
runs through and the tables are compared with those of a run without crashes.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from headwater.errors import CrashRunFailed
from headwater.runtime.late import late_name
from headwater.verification.victims import Victims, kill

T = TypeVar("T")

_POLL_S = 0.0005
_START_S = 300.0
_WORK_S = 60.0
_INTO_THE_WRITE_S = 0.2
"""The longest that a crash waits after the first job of its batch: jobs of small batches are
short."""
_MOST_PER_ROUND = 6


class Point(enum.Enum):
    """Where in a batch the crash comes."""

    OFFSETS = "after the offsets"
    WRITE = "in the sink's write"
    STATE = "in the upload of the state"
    BEFORE_COMMIT = "before the commit"
    COMMIT = "after the commit"
    LATE = "in the late capture"


class Kind(enum.Enum):
    """What is killed."""

    DRIVER = "driver"
    WORKER = "python worker"
    EXECUTOR = "executor"
    CONNECTION = "sink connection"


_WHILE_ROWS_FLOW = {
    Kind.WORKER: {Point.OFFSETS, Point.WRITE},
    Kind.EXECUTOR: {Point.OFFSETS, Point.WRITE, Point.STATE, Point.LATE},
    Kind.CONNECTION: {Point.OFFSETS, Point.WRITE},
}
"""The points at which a part of the run is there; the driver always is."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What of a table decides which cells it has."""

    name: str
    sink: str
    mode: str
    is_stateful: bool
    has_late: bool
    has_python: bool
    ports: tuple[int, ...]
    """Where the sink's server listens; none for files."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One crash of the matrix."""

    table: str
    sink: str
    mode: str
    point: Point
    kind: Kind

    @property
    def is_by_chance(self) -> bool:
        """Whether a driver that is killed for another table may reach it."""
        return self.point in (Point.OFFSETS, Point.WRITE, Point.COMMIT)

    def __str__(self) -> str:
        return f"{self.table} ({self.sink}, {self.mode}): {self.kind.value}, {self.point.value}"


def cells_of(tables: Sequence[TableFacts], *, has_executors: bool) -> list[Cell]:
    """Every cell that exists. `has_executors`: the run is on a cluster."""
    return [
        Cell(table.name, table.sink, table.mode, point, kind)
        for table in tables
        for point, kind in itertools.product(Point, Kind)
        if _exists(table, point, kind, has_executors=has_executors)
    ]


def _exists(table: TableFacts, point: Point, kind: Kind, *, has_executors: bool) -> bool:
    if point is Point.STATE and not table.is_stateful:
        return False
    if point is Point.LATE and not table.has_late:
        return False
    if kind is Kind.DRIVER:
        return True
    is_there = {
        Kind.WORKER: table.has_python,
        Kind.EXECUTOR: has_executors,
        Kind.CONNECTION: bool(table.ports),
    }
    return is_there[kind] and point in _WHILE_ROWS_FLOW[kind]


def covering(cells: Sequence[Cell], seed: int) -> list[Cell]:
    """A small subset with every pair of values that some cell has: each sink in each mode, each
    sink at each point, each mode with each kind, and so on."""
    shuffled = random.Random(seed).sample(list(cells), len(cells))
    left = {pair for cell in cells for pair in _pairs(cell)}
    chosen: set[Cell] = set()
    while left:
        best = max(shuffled, key=lambda cell: len(left & _pairs(cell)))
        left -= _pairs(best)
        chosen.add(best)
    return [cell for cell in cells if cell in chosen]


def _pairs(cell: Cell) -> set[tuple[object, object]]:
    values = (("sink", cell.sink), ("mode", cell.mode), cell.point, cell.kind)
    return set(itertools.combinations(values, 2))


def random_cells(cells: Sequence[Cell], seed: int) -> Iterator[Cell]:
    chance = random.Random(seed)
    while True:
        yield chance.choice(list(cells))


@dataclass
class Crash:
    """What became of a cell: the batch in which it was reached, None where it was not."""

    cell: Cell
    batch: int | None = None

    def as_json(self) -> dict[str, object]:
        described = {**asdict(self.cell), "point": self.cell.point.value}
        return {**described, "kind": self.cell.kind.value, "batch": self.batch}


@dataclass
class Round:
    """Crashes one after the other on one checkpoint, and the comparison at their end."""

    number: int
    crashes: list[Crash]
    missing: dict[str, int] = field(default_factory=dict)
    twice: dict[str, int] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        return not self.missing and not self.twice

    @property
    def reached(self) -> list[Crash]:
        return [crash for crash in self.crashes if crash.batch is not None]

    def as_json(self) -> dict[str, object]:
        return {
            "round": self.number,
            "is_exact": self.is_exact,
            "missing": self.missing,
            "twice": self.twice,
            "crashes": [crash.as_json() for crash in self.crashes],
        }


Contents = Mapping[str, Mapping[str, int]]


@dataclass
class Matrix:
    """Runs rounds. `command` starts a driver; it is given the tag of the round, the tables, and
    what to do: `run` everything new, or `finish`: run, and write what the tables hold into
    contents.json."""

    command: Callable[[str, str, Sequence[str]], list[str]]
    folder: Path
    pipeline: str
    ports: Mapping[str, tuple[int, ...]]
    batches: int
    seed: int
    tell: Callable[[str], None]

    def reference(self) -> Contents:
        """What the tables hold without a crash."""
        return self._finish("plain", tuple(self.ports))

    def round(
        self, number: int, cells: Sequence[Cell], open_cells: Sequence[Cell], reference: Contents
    ) -> Round:
        """Crashes at `cells`; a driver takes its other tables with it, at the points where they
        are, and so may reach other `open_cells` too."""
        tag, tables = f"r{number}", sorted({cell.table for cell in cells})
        chance = random.Random(f"{self.seed}/{number}")
        done, left = Round(number, []), [cell for cell in open_cells if cell.table in tables]
        process: subprocess.Popen[bytes] | None = None
        running: list[str] = []
        through: set[str] = set()
        begun: dict[str, int] = {}
        try:
            for cell in cells:
                if cell not in left or cell.table in through:
                    continue
                # Whoever outlives a crash would be through before its own turn.
                needed = tables if cell.kind is Kind.DRIVER else [cell.table]
                if process is not None and running != needed:
                    _kill(process)
                # A driver that outlived the last crash goes on.
                if process is None or process.poll() is not None:
                    shutil.rmtree(at_work(self.folder / tag), ignore_errors=True)
                    begun = {table: self._place(tag, table).last("offsets") for table in needed}
                    process, running = self._start(tag, "run", needed), needed
                crashes = [Crash(cell, self._crash(process, tag, cell, chance))]
                if process.poll() == 0:
                    # It ended by itself: there is no batch left for these.
                    through.update(running)
                elif cell.kind is Kind.DRIVER:
                    others = [other for other in left if other.table != cell.table]
                    crashes += self._taken_along(tag, others, begun)
                for crash in crashes:
                    left.remove(crash.cell)
                    done.crashes.append(crash)
                    reached = "not reached" if crash.batch is None else f"batch {crash.batch}"
                    self.tell(f"{crash.cell}: {reached}")
        finally:
            if process is not None:
                _kill(process)
        found = self._finish(tag, tables)
        for table in sorted({*found, *(late_name(one) for one in found)} & {*reference, *found}):
            expected, there = Counter(reference.get(table, {})), Counter(found.get(table, {}))
            if missing := (expected - there).total():
                done.missing[table] = missing
            if twice := (there - expected).total():
                done.twice[table] = twice
        self.tell(f"round {number}: {'exact' if done.is_exact else 'BROKEN'}")
        return done

    @property
    def most_per_round(self) -> int:
        """A crash uses up a batch, and the last round must have some left."""
        return max(1, min(_MOST_PER_ROUND, self.batches - 2))

    # Inside

    def _finish(self, tag: str, tables: Sequence[str]) -> Contents:
        process = self._start(tag, "finish", tables)
        code = process.wait(timeout=_START_S * 2)
        if code != 0:
            raise CrashRunFailed(tag, self._log(tag).read_text()[-3000:])
        found: Contents = json.loads((self.folder / tag / "contents.json").read_text())
        return found

    def _crash(
        self, process: subprocess.Popen[bytes], tag: str, cell: Cell, chance: random.Random
    ) -> int | None:
        """Waits for the cell's point in the next batch of its table, and crashes there."""
        place = self._place(tag, cell.table)
        after = place.last("offsets")

        def has_ended() -> bool:
            return process.poll() is not None

        late = place.late_files()
        batch = _await(lambda: place.next_batch(after), has_ended, _START_S)
        if batch is None:
            return None

        def comes(has_come: Callable[[], bool]) -> bool:
            return bool(_await(lambda: has_come() or None, has_ended, _WORK_S))

        is_there = True
        match cell.point:
            case Point.WRITE:
                is_there = self._is_writing(place, batch, chance, comes)
            case Point.STATE:
                is_there = comes(lambda: place.has_state(batch))
            case Point.COMMIT:
                is_there = comes(lambda: place.has("commits", batch))
            case Point.LATE:
                is_there = comes(lambda: place.late_files() > late)
            case Point.BEFORE_COMMIT:
                is_there = self._refuse_commit(place, batch, tag, has_ended)
        if cell.kind is Kind.DRIVER:
            _kill(process)
            place.allow_commit()
            return batch if is_there else None
        is_hit = is_there and self._hit(process, cell, tag, chance)
        # It goes on by itself: the batch is committed in the end.
        is_over = _await(lambda: place.has("commits", batch) or None, has_ended, _START_S)
        return batch if is_hit and is_over else None

    def _taken_along(
        self, tag: str, cells: Sequence[Cell], begun: Mapping[str, int]
    ) -> list[Crash]:
        """Which cells a killed driver reached by chance: at most one of each table."""
        found: dict[str, Crash] = {}
        for cell in cells:
            place = self._place(tag, cell.table)
            batch = place.last("offsets")
            if cell.kind is not Kind.DRIVER or batch <= begun[cell.table]:
                continue
            if cell.point is place.point_of(batch):
                found.setdefault(cell.table, Crash(cell, batch))
        return list(found.values())

    def _place(self, tag: str, table: str) -> _Checkpoint:
        root = self.folder / tag
        return _Checkpoint(root / "storage" / self.pipeline, table, at_work(root) / table)

    def _is_writing(
        self,
        place: _Checkpoint,
        batch: int,
        chance: random.Random,
        comes: Callable[[Callable[[], bool]], bool],
    ) -> bool:
        """Waits until a job of the batch runs, and a moment; whether the batch still runs then."""
        comes(lambda: place.is_at_work or place.has("commits", batch))
        time.sleep(chance.uniform(0, _INTO_THE_WRITE_S))
        return not place.has("commits", batch)

    def _refuse_commit(
        self, place: _Checkpoint, batch: int, tag: str, has_ended: Callable[[], bool]
    ) -> bool:
        """Spark never writes a commit that is there: the batch is in the sink, and fails."""
        mark = self._log(tag).stat().st_size
        if not place.refuse_commit(batch):
            return False

        def has_failed() -> bool | None:
            text = self._log(tag).read_text()[mark:]
            names = ("QueryRestarting", "QueryFailed")
            return any(f"{name} {place.table}" in text for name in names) or None

        return bool(_await(has_failed, has_ended, 60))

    def _hit(
        self, process: subprocess.Popen[bytes], cell: Cell, tag: str, chance: random.Random
    ) -> bool:
        run = Victims(process.pid, self._application(tag))

        def has_ended() -> bool:
            return process.poll() is not None

        if cell.kind is Kind.CONNECTION:
            # There only while rows are written.
            cut = _await(lambda: run.cut(self.ports[cell.table]) or None, has_ended, 30)
            return bool(cut)
        if cell.kind is Kind.EXECUTOR:
            executors = _await(lambda: run.executors() or None, has_ended, 60) or []
            victims = [chance.choice(executors)] if executors else []
        else:
            # There once the rows of the batch are computed.
            victims = _await(lambda: run.python_workers() or None, has_ended, 5) or []
        kill(victims)
        return bool(victims)

    def _application(self, tag: str) -> str:
        """The name that Spark gave to the newest driver of a round."""
        found = re.findall(r"^application (\S+)$", self._log(tag).read_text(), re.MULTILINE)
        return str(found[-1]) if found else "?"

    def _start(self, tag: str, what: str, tables: Sequence[str]) -> subprocess.Popen[bytes]:
        (self.folder / tag).mkdir(parents=True, exist_ok=True)
        with self._log(tag).open("ab") as log:
            return subprocess.Popen(
                self.command(tag, what, tables), stdout=log, stderr=log, start_new_session=True
            )

    def _log(self, tag: str) -> Path:
        return self.folder / tag / "driver.log"


@dataclass
class _Checkpoint:
    """The checkpoint of one table, seen from outside."""

    root: Path
    table: str
    work: Path
    _refused: Path | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether the driver says, or said at last, that a job of the table runs."""
        return self.work.exists()

    def point_of(self, batch: int) -> Point:
        """Where a driver that is gone was in its newest batch."""
        if self.has("commits", batch):
            return Point.COMMIT
        return Point.WRITE if self.is_at_work else Point.OFFSETS

    def last(self, log: str) -> int:
        return max(self._numbers(log), default=-1)

    def has(self, log: str, batch: int) -> bool:
        return (self._path / log / str(batch)).exists()

    def next_batch(self, after: int) -> int | None:
        """The newest batch where it was begun after `after`, or is to be run again."""
        newest = self.last("offsets")
        return newest if newest > after else None

    def has_state(self, batch: int) -> bool:
        state = self._path / "state"
        return any(state.glob(f"*/*/*{batch + 1}.*")) or any(state.glob(f"*/*/*/*{batch + 1}.*"))

    def late_files(self) -> int:
        folder = self.root / "tables" / f"{self.table}__late"
        return sum(1 for _ in folder.rglob("*")) if folder.exists() else 0

    def refuse_commit(self, batch: int) -> bool:
        path = self._path / "commits" / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            return False
        self._refused = path
        return True

    def allow_commit(self) -> None:
        if self._refused is not None and self._refused.stat().st_size == 0:
            self._refused.unlink()

    def _numbers(self, log: str) -> list[int]:
        folder = self._path / log
        return [int(n) for n in os.listdir(folder) if n.isdigit()] if folder.is_dir() else []

    @property
    def _path(self) -> Path:
        return self.root / "checkpoints" / self.table


def at_work(folder: Path) -> Path:
    """Where a driver tells which tables have a job that runs: a file for each."""
    return folder / "at_work"


def _await(ask: Callable[[], T | None], is_over: Callable[[], bool], within_s: float) -> T | None:
    """The first answer; None where the process ended, or the time did."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = ask()
        if found is not None:
            return found
        if is_over():
            return ask()
        time.sleep(_POLL_S)
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The driver, its JVM and its Python workers at once, as a machine that goes down."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
