"""Rows that leave a query beside its result, kept as data in Delta tables of their own.

The query itself only counts them, and may hand a few over with its progress. The rest happens off
its path, batch after batch: where a batch counted some, they are appended to the side table under
a transaction that names the query and the batch; batches that wait share one. A cursor says up to
which batch this is decided; after a crash the undecided batches are read again, from the offsets of
the checkpoint.
"""

from __future__ import annotations

import json
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from headwater.event_time.watch import Heard, Watch
from headwater.events import BatchCompleted, Event, Report
from headwater.jvm.telling import ToldRows
from headwater.ledger import transactions
from headwater.runtime.storage import Files, Storage, last_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CURSOR_EVERY = 20
"""On storage where writing a file costs more than reading a few batches again."""
_TOGETHER = 16
"""So many batches at most share a transaction."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a query said of a batch: figures, the late rows that its watch heard of, and the
    rejected records of its sources."""

    event: BatchCompleted
    heard: Heard | None = None
    watch: Watch | None = None
    rejected: Mapping[str, ToldRows] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows for a side table, decided up to a batch; few, where the query told them one by one."""

    batch: int
    rows: DataFrame
    are_few: bool = False


@dataclass(frozen=True, slots=True)
class _Batch:
    """A committed batch that is to be decided; what was told of it, unless an earlier run did."""

    query: str
    number: int
    told: Told | None


class SideTable(ABC):
    """One side table and the query whose rows it keeps."""

    query: str
    name: str

    @abstractmethod
    def count(self, told: Told | None) -> int | None:
        """How many rows a batch has for it; None where nobody counted."""

    @abstractmethod
    def parts(self, after: int, batch: int, told: Told | None) -> Iterable[Part]:
        """The rows of the batches behind `after`, up to and with `batch`."""

    @abstractmethod
    def captured(self, batch: int, rows: int) -> Event:
        """What is reported when rows were stored."""

    @property
    def key(self) -> tuple[str, str]:
        return self.query, self.name


class SideStore(Protocol):
    """Where side tables are kept, with a ledger of the versions that each application wrote."""

    def append(
        self, table: str, rows: DataFrame, application: str, version: int, *, are_few: bool = False
    ) -> int:
        """Appends the rows unless this version is there; returns how many."""

    def last_version(self, table: str, application: str) -> int | None:
        """The highest version that an application wrote to a table."""


@dataclass(frozen=True, slots=True)
class DeltaSideStore:
    """One Delta table each."""

    spark: SparkSession
    storage: Storage

    def append(
        self, table: str, rows: DataFrame, application: str, version: int, *, are_few: bool = False
    ) -> int:
        place = self.storage.table(table)
        is_quick = are_few and self.storage.is_local
        append = transactions.append_few if is_quick else transactions.append
        return append(rows, place, application=application, version=version)

    def last_version(self, table: str, application: str) -> int | None:
        return transactions.last_version(self.spark, self.storage.table(table), application)


class SideTables:
    """Decides batch after batch, in a thread of its own."""

    def __init__(
        self,
        store: SideStore,
        storage: Storage,
        files: Files,
        tables: Iterable[SideTable],
        report: Report,
    ) -> None:
        self._store = store
        self._storage = storage
        self._files = files
        self._tables: dict[str, list[SideTable]] = {}
        for table in tables:
            self._tables.setdefault(table.query, []).append(table)
        self._report = report
        self._cursors: dict[tuple[str, str], int] = {}
        self._written: dict[tuple[str, str], int] = {}
        self._batches: queue.Queue[_Batch | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="headwater-sides", daemon=True)
        self._failures: dict[str, Exception] = {}

    @property
    def failure(self) -> tuple[str, Exception] | None:
        """A side table whose batches are still undecided, and why."""
        return next(iter(self._failures.items()), None)

    def start(self) -> None:
        self._thread.start()

    def decide(self, query: str, batch: int, told: Told | None) -> None:
        """Hands over a committed batch, and what was told of it, unless it is to be read again."""
        if query in self._tables:
            self._batches.put(_Batch(query, batch, told))

    def catch_up(self, query: str) -> None:
        """Batches that an earlier run committed without deciding are decided first."""
        if query not in self._tables:
            return
        committed = last_number(self._files, f"{self._storage.checkpoint(query)}/commits")
        for table in self._tables[query]:
            # A side table that is new to an old checkpoint begins with the next batch: what was
            # late or rejected before, nobody was asked to keep.
            if not self._files.exists(self._cursor_path(table.key)):
                self._begin(table, -1 if committed is None else committed)
        if committed is not None:
            self._batches.put(_Batch(query, committed, None))

    def await_decided(self) -> None:
        """Returns when everything handed over so far is decided."""
        self._batches.join()

    def close(self) -> None:
        """Returns when everything handed over is decided."""
        self._batches.put(None)
        self._thread.join()
        for key, cursor in self._cursors.items():
            self._write_cursor(key, cursor)

    def _work(self) -> None:
        is_open = True
        while is_open:
            handed_over = self._taken()
            is_open = None not in handed_over
            by_query: dict[str, list[_Batch]] = {}
            for item in filter(None, handed_over):
                by_query.setdefault(item.query, []).append(item)
            for query, batches in by_query.items():
                self._decide_all(query, batches)
            for _ in handed_over:
                self._batches.task_done()

    def _taken(self) -> list[_Batch | None]:
        """Everything that waits: a Delta transaction costs the same for one batch as for many."""
        taken = [self._batches.get()]
        while taken[-1] is not None and len(taken) < _TOGETHER:
            try:
                taken.append(self._batches.get_nowait())
            except queue.Empty:
                break
        return taken

    def _decide_all(self, query: str, batches: Sequence[_Batch]) -> None:
        for table in self._tables[query]:
            try:
                self._decide(table, batches)
                self._failures.pop(table.name, None)
            except Exception as problem:
                # The cursor stays: the same batches are decided with the next one.
                self._failures[table.name] = problem

    def _decide(self, table: SideTable, batches: Sequence[_Batch]) -> None:
        if table.key not in self._cursors:
            self._cursors[table.key] = self._read_cursor(table)
        cursor, parts = self._cursors[table.key], list[Part]()
        for number, told in ((batch.number, batch.told) for batch in batches):
            if number <= cursor:
                continue
            is_whole = told is not None and number == cursor + 1
            if not is_whole:
                # A crash may have come between rows and cursor.
                stored = self._store.last_version(table.name, self._application(table))
                cursor = max(cursor, -1 if stored is None else stored)
            if not is_whole or table.count(told) != 0:
                parts += table.parts(cursor, number, told if is_whole else None)
            cursor = max(cursor, number)
        for first in range(0, len(parts), _TOGETHER):
            self._keep(table, parts[first : first + _TOGETHER])
        self._cursors[table.key] = cursor
        every = 1 if self._storage.is_local else _CURSOR_EVERY
        if cursor - self._written.get(table.key, -1) >= every:
            self._write_cursor(table.key, cursor)

    def _keep(self, table: SideTable, parts: Sequence[Part]) -> None:
        """Stores parts in one transaction, which counts as that of the last batch."""
        rows = reduce(lambda one, other: one.unionByName(other, True), (p.rows for p in parts))
        application, batch = self._application(table), parts[-1].batch
        are_few = all(part.are_few for part in parts)
        stored = self._store.append(table.name, rows, application, batch, are_few=are_few)
        if stored:
            self._report(table.captured(batch, stored))

    def _application(self, table: SideTable) -> str:
        metadata = self._files.read(f"{self._storage.checkpoint(table.query)}/metadata")
        return f"{json.loads(metadata)['id']}/{table.name}"

    def _read_cursor(self, table: SideTable) -> int:
        path = self._cursor_path(table.key)
        written = int(self._files.read(path)) if self._files.exists(path) else -1
        self._written[table.key] = written
        return written

    def _begin(self, table: SideTable, cursor: int) -> None:
        self._files.write(self._cursor_path(table.key), str(cursor))

    def _write_cursor(self, key: tuple[str, str], cursor: int) -> None:
        if self._files.exists(self._storage.checkpoint(key[0])):
            self._files.write(self._cursor_path(key), str(cursor))
            self._written[key] = cursor

    def _cursor_path(self, key: tuple[str, str]) -> str:
        query, name = key
        return f"{self._storage.checkpoint(query)}/headwater/{name}"


def batches_between(after: int, batch: int) -> Iterator[int]:
    yield from range(after + 1, batch + 1)
