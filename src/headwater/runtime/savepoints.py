"""Named copies of a pipeline's checkpoints at a batch boundary, with the position of each sink.

To restore one is to go back: the checkpoint is put in place under a new query id, and what the sink
holds since is taken back where it can be (Delta). Where it cannot, and something was written since,
the restore is refused before anything is touched. A restore that died half-way leaves a mark:
nothing runs until it was asked for again, which goes on with the tables that are missing.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headwater.definitions import OutputMode
from headwater.errors import (
    BatchUnfinished,
    InvalidName,
    NoCheckpoint,
    RestoreUnfinished,
    SavepointExists,
    SavepointNotRestorable,
    UnknownSavepoint,
)
from headwater.graph import Graph
from headwater.jvm.classes import java_class
from headwater.runtime.late import late_name
from headwater.runtime.rejects import reported_by
from headwater.runtime.specification import QuerySpec, write_request
from headwater.runtime.storage import Files, Storage, last_number, set_aside
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONTENT = "savepoint.json"


def require_restored(files: Files, storage: Storage) -> None:
    """Raises RestoreUnfinished: checkpoints and sinks do not belong together yet."""
    _done(files, storage, None)


def _done(files: Files, storage: Storage, name: str | None) -> list[str] | None:
    """The tables that a restore of this savepoint has put back; None where none was begun."""
    if not files.exists(storage.restoring):
        return None
    mark = json.loads(files.read(storage.restoring))
    if mark["savepoint"] != name:
        raise RestoreUnfinished(mark["savepoint"], mark["tables"])
    return [str(table) for table in mark["tables"]]


@dataclass(frozen=True, slots=True)
class SavedTable:
    """One table of a savepoint; `versions` are those of its Delta tables, with the late and
    rejected rows that it keeps, by path, below the storage or whole; -1 where there was none yet.
    `position` is what another sink said of itself and of `query`."""

    table: str
    batch: int
    sink: str
    versions: dict[str, int]
    query: str = ""
    position: str | None = None


@dataclass(frozen=True, slots=True)
class Savepoint:
    name: str
    created: str
    tables: tuple[SavedTable, ...]


class Savepoints:
    """The savepoints of one pipeline, which must not run meanwhile."""

    def __init__(
        self, spark: SparkSession, settings: Settings, storage: Storage, graph: Graph
    ) -> None:
        self._spark = spark
        self._graph = graph
        self._settings = settings
        self._storage = storage
        self._files = Files(storage, spark)

    def create(self, name: str, specs: Sequence[QuerySpec]) -> Savepoint:
        """Raises SavepointExists, NoCheckpoint where nothing was committed yet, and BatchUnfinished
        where a sink may hold more than its checkpoint says."""
        if not name.replace("-", "").replace("_", "").isalnum():
            raise InvalidName("savepoint", name)
        home = self._storage.savepoint(name)
        if self._files.exists(f"{home}/{_CONTENT}"):
            raise SavepointExists(name)
        require_restored(self._files, self._storage)
        self._files.remove(home)
        tables = []
        for spec in specs:
            batch = self._committed(spec.name)
            if batch is None:
                continue
            begun = self._begun(spec.name)
            if begun > batch:
                raise BatchUnfinished(spec.name, begun, f"savepoint create {name}")
            self._files.copy(self._storage.checkpoint(spec.name), f"{home}/{spec.name}")
            versions = {
                self._relative(path): self._version(path) for path in self._delta_tables(spec)
            }
            query = self._query_id(spec.name)
            position = self._position(spec, query)
            sink = spec.sink.describe()
            tables.append(SavedTable(spec.name, batch, sink, versions, query, position))
        if not tables:
            raise NoCheckpoint([spec.name for spec in specs])
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        saved = Savepoint(name, now, tuple(tables))
        # Last: a copy without its content is none.
        self._files.write(f"{home}/{_CONTENT}", json.dumps(asdict(saved), indent=2) + "\n")
        return saved

    def all(self) -> list[Savepoint]:
        """The oldest first."""
        names = self._files.names(self._storage.savepoint("x").removesuffix("/x"))
        found = [self._read(name) for name in names]
        return sorted((s for s in found if s is not None), key=lambda saved: saved.created)

    def restore(self, name: str, specs: Sequence[QuerySpec]) -> list[str]:
        """Puts every table of a savepoint back; what it did, in words.

        Raises UnknownSavepoint, SavepointNotRestorable, and RestoreUnfinished where that of another
        savepoint died half-way.
        """
        saved = self._read(name)
        if saved is None:
            raise UnknownSavepoint(name, [known.name for known in self.all()])
        by_name = {spec.name: spec for spec in specs}
        missing = [table.table for table in saved.tables if table.table not in by_name]
        if missing:
            raise SavepointNotRestorable(name, f"table {missing[0]} is not declared any more")
        done = _done(self._files, self._storage, name)
        if done is None:
            for table in saved.tables:
                self._require_restorable(name, table, by_name[table.table])
            self._mark(name, [])
        done = done or []
        told = [f"{table}: was restored before" for table in done]
        for table in saved.tables:
            if table.table not in done:
                told += self._restored(name, table)
                done.append(table.table)
                self._mark(name, done)
        self._files.remove(self._storage.restoring)
        return told

    def _mark(self, name: str, done: Sequence[str]) -> None:
        mark = {"savepoint": name, "tables": done}
        self._files.write(self._storage.restoring, json.dumps(mark))

    def _require_restorable(self, name: str, saved: SavedTable, spec: QuerySpec) -> None:
        if spec.sink.system == "delta":
            self._require_not_streamed(name, saved, spec)
            return
        # A batch that was begun may be in the sink before it is committed.
        now = self._begun(saved.table)
        if now > saved.batch:
            raise SavepointNotRestorable(
                name,
                f"{saved.table} has written batches {saved.batch + 1} to {now} into "
                f"{saved.sink} since, which cannot be taken back",
            )
        # The checkpoint may be on another machine, or gone: the sink is asked as well.
        position = self._position(spec, saved.query)
        if saved.position is not None and position != saved.position:
            raise SavepointNotRestorable(
                name,
                f"{saved.sink} of {saved.table} was at {saved.position} and is at {position}: what "
                "was written since cannot be taken back",
            )

    def _require_not_streamed(self, name: str, saved: SavedTable, spec: QuerySpec) -> None:
        """Who reads a Delta table as a stream reads every commit that was ever made, those that are
        taken back too."""
        place = self._delta_tables(spec)[0]
        readers = [
            table
            for table in self._graph.tables
            if spec.mode is OutputMode.APPEND
            and any(read.name == spec.name for read in self._graph.reads_directly(table))
        ]
        if readers and self._version(place) != saved.versions.get(self._relative(place)):
            raise SavepointNotRestorable(
                name,
                f"{readers[0]} reads {spec.name} as a stream, and would read what is taken back",
            )

    def _restored(self, name: str, saved: SavedTable) -> list[str]:
        checkpoint = self._storage.checkpoint(saved.table)
        aside = set_aside(self._files, self._storage, saved.table, is_managed=False)
        self._files.copy(f"{self._storage.savepoint(name)}/{saved.table}", checkpoint)
        # Sinks know what a query has written by its id: what comes now is something else.
        self._files.write(f"{checkpoint}/metadata", json.dumps({"id": str(uuid.uuid4())}))
        self._files.remove(f"{checkpoint}/.metadata.crc")
        told = [f"{saved.table}: resumes after batch {saved.batch}"]
        told += [f"{saved.table}: what was there is kept in {place}" for place in aside]
        for path, version in saved.versions.items():
            told += self._taken_back(saved.table, self._absolute(path), version)
        return told

    def _taken_back(self, table: str, path: str, version: int) -> list[str]:
        if self._version(path) == version:
            return []
        if version < 0:
            name = path.rsplit("/", 1)[-1]
            place = self._storage.aside(table, name, dt.datetime.now(dt.UTC))
            self._files.move(path, place)
            return [f"{table}: {path} was not there then; it is kept in {place}"]
        tables = java_class(self._spark, "io.delta.tables.DeltaTable")
        tables.forPath(self._spark._jsparkSession, path).restoreToVersion(version)
        return [f"{table}: {path} is as of version {version} again"]

    def _delta_tables(self, spec: QuerySpec) -> list[str]:
        """Where a table's rows and what it keeps beside them are, as far as that is Delta."""
        rejected = [f"{source}__rejected" for source in reported_by(self._graph, spec.name)]
        beside = [self._storage.table(name) for name in (late_name(spec.name), *rejected)]
        if spec.sink.system != "delta":
            return beside
        request = write_request(spec, self._settings, self._storage)
        place = spec.sink.place(request.base, "") or request.managed
        return [place, *beside]

    def _position(self, spec: QuerySpec, query: str) -> str | None:
        if spec.sink.system == "delta":
            return None
        request = write_request(spec, self._settings, self._storage)
        return spec.sink.position(self._spark, request, query)

    def _query_id(self, table: str) -> str:
        text = self._files.read(f"{self._storage.checkpoint(table)}/metadata")
        return str(json.loads(text)["id"])

    def _relative(self, path: str) -> str:
        """A path below the storage as it is on every machine."""
        return path.removeprefix(f"{self._storage.home}/")

    def _absolute(self, path: str) -> str:
        is_whole = path.startswith("/") or "://" in path
        return path if is_whole else f"{self._storage.home}/{path}"

    def _version(self, path: str) -> int:
        tables = java_class(self._spark, "io.delta.tables.DeltaTable")
        if not tables.isDeltaTable(self._spark._jsparkSession, path):
            return -1
        logs = java_class(self._spark, "org.apache.spark.sql.delta.DeltaLog")
        log = logs.forTable(self._spark._jsparkSession, path)
        return int(log.unsafeVolatileSnapshot().version())

    def _begun(self, table: str) -> int:
        """The newest batch that was planned; -1 where there is none."""
        found = last_number(self._files, f"{self._storage.checkpoint(table)}/offsets")
        return -1 if found is None else found

    def _committed(self, table: str) -> int | None:
        return last_number(self._files, f"{self._storage.checkpoint(table)}/commits")

    def _read(self, name: str) -> Savepoint | None:
        path = f"{self._storage.savepoint(name)}/{_CONTENT}"
        if not self._files.exists(path):
            return None
        content: dict[str, Any] = json.loads(self._files.read(path))
        tables = tuple(SavedTable(**table) for table in content["tables"])
        return Savepoint(content["name"], content["created"], tables)
