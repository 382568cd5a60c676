"""The queries of a pipeline: built together, started together, watched, ended together."""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self

from headwater.connectors.interface import ReadRequest, WriteRequest
from headwater.definitions import (
    Lookup,
    Model,
    OutputMode,
    Source,
    Trigger,
    TriggerKind,
)
from headwater.errors import RowsWithoutCheckpoint, SideTableUnwritten, UnknownTable
from headwater.events import LateCount, PipelineStarted, PipelineStopped, Report
from headwater.graph import Graph
from headwater.runtime.clock import ManualClock, start_on
from headwater.runtime.failures import explained, first_line
from headwater.runtime.frames import BuiltTable, Frames, Gate
from headwater.runtime.gaps import GapGuard
from headwater.runtime.hearing import Hearing
from headwater.runtime.integrity import close_hole, require_whole
from headwater.runtime.late import LateRows
from headwater.runtime.launching import share_of, triggered, watermark_policy
from headwater.runtime.lookups import Reloader, VersionedLookup
from headwater.runtime.models import ModelStore
from headwater.runtime.offsets import OffsetLog
from headwater.runtime.panes import Panes
from headwater.runtime.progress import ProgressListener
from headwater.runtime.query import Launched, Query
from headwater.runtime.rejects import RejectedRecords, reported_by, source_index
from headwater.runtime.replay import Replay
from headwater.runtime.savepoints import require_restored
from headwater.runtime.session import scheduled_in
from headwater.runtime.sides import DeltaSideStore, SideStore, SideTable, SideTables
from headwater.runtime.specification import QuerySpec, read_request, write_request
from headwater.runtime.storage import FileNote, Files, Storage, last_number
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_WAIT_S = 0.1


class Companion(Protocol):
    """Works beside the queries, in threads of its own, from their start to their end."""

    def start(self, run: RunningQueries, report: Report) -> None: ...
    def close(self) -> None: ...


class RunningQueries:
    """Queries by table name, from start to stop; nobody outside this process knows of them.

    With a `clock` they run when that clock says so; `measures` is about the lateness of rows. A
    query that fails does not stop the others. `stop` may be called from any thread.
    """

    def __init__(
        self,
        spark: SparkSession,
        graph: Graph,
        specs: Sequence[QuerySpec],
        settings: Settings,
        report: Report,
        *,
        upstream: Sequence[QuerySpec] = (),
        clock: ManualClock | None = None,
        measures: bool = True,
        side_store: SideStore | None = None,
        storage: Storage | None = None,
        companion: Companion | None = None,
    ) -> None:
        self.name = graph.definitions.pipeline
        self.settings = settings
        self._spark = spark
        self._graph = graph
        self._storage = storage or Storage(settings.storage_root, self.name)
        self._files = Files(self._storage, spark)
        self._report = report
        self._clock = clock
        self._specs = {spec.name: spec for spec in specs}
        self._upstream = {spec.name: spec for spec in upstream}
        self._queries: dict[str, Query] = {}
        self._by_run: dict[str, str] = {}
        self._run_again: dict[str, int | None] = {}
        """The newest batch that was begun before a table was started: it runs again unless it was
        committed."""
        self._launching = threading.Lock()
        """Held until a started query is known by its run: its first batch may be told before."""
        self._listener = ProgressListener(spark, self._on_progress)
        self._sides: SideTables | None = None
        self._side_store = side_store or DeltaSideStore(spark, self._storage)
        self._hearing = Hearing(spark, graph, self._storage, measures=measures)
        self._panes: dict[str, Panes] = {}
        self._reloader: Reloader | None = None
        self._companion = companion
        self._stopping = threading.Lock()
        self._is_stopped = False
        self.stop_requested = threading.Event()
        """Set when somebody asked for a stop from another process."""
        self.drain_requested = threading.Event()
        """Set before it where that stop should process what is there first."""

    # Looking

    def __getitem__(self, table: str) -> Query:
        if table not in self._queries:
            raise UnknownTable(table, self._queries)
        return self._queries[table]

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def queries(self) -> Mapping[str, Query]:
        return dict(self._queries)

    @property
    def is_active(self) -> bool:
        return any(query.is_active for query in self._queries.values())

    def status(self) -> dict[str, Any]:
        """State, status and last progress of every query as plain values."""
        tables = [
            query.summary()
            | {
                "late": self._late_summary(name),
                "rejected": self._hearing.rejected(name),
                "waiting": self._panes[name].waiting() if name in self._panes else None,
            }
            for name, query in self._queries.items()
        ]
        return {"pipeline": self.name, "tables": tables}

    def late(self, table: str) -> LateCount | None:
        """A table's rows since the start by how they stood to the watermark; None where no row
        can be late."""
        self[table]
        return self._hearing.late(table)

    def _late_summary(self, table: str) -> dict[str, int] | None:
        found = self.late(table)
        return None if found is None else asdict(found)

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Whether all queries ended within the time-out (None: waits until they do)."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._tell_ended()
            going = [query for query in self._queries.values() if query.is_going_on]
            if not going:
                return True
            active = next((query for query in going if query.is_active), None)
            left_s = math.inf if deadline is None else deadline - time.monotonic()
            if self.stop_requested.is_set() or left_s <= 0:
                return False
            if active is None:
                self.stop_requested.wait(min(_WAIT_S, left_s))
            else:
                active.wait(min(_WAIT_S, left_s))

    def _tell_ended(self) -> None:
        ended = [query for query in self._queries.values() if query.has_ended_untold]
        if ended:
            # Progress comes through Spark's listener bus: let the last batch be told first.
            self._hear_what_was_told()
        for query in ended:
            self._on_end(query)

    def _on_end(self, query: Query) -> None:
        """A query has ended by itself."""
        query.tell_end(was_forced=False)

    def await_sides(self) -> None:
        """Returns when the late and rejected rows of every batch that ended are stored."""
        self._hear_what_was_told()
        if self._sides is not None:
            self._sides.await_decided()

    def raise_failure(self) -> None:
        """Raises what the first failed query, or keeping late and rejected rows, failed with."""
        for query in self._queries.values():
            if problem := query.exception:
                raise problem
        if self._sides is not None and self._sides.failure is not None:
            table, failure = self._sides.failure
            raise SideTableUnwritten(table, first_line(failure)) from failure

    # Starting and stopping

    def start(self) -> Self:
        """Builds every query before the first one starts; nothing runs where one cannot."""
        try:
            require_restored(self._files, self._storage)
            for spec in self._specs.values():
                checkpoint = self._storage.checkpoint(spec.name)
                require_whole(self._files, checkpoint, spec.name, where=spec.table.location)
                if not spec.is_async_progress and self._was_async(spec.name):
                    close_hole(self._files, checkpoint)
            built = self._build()
            self._check_gaps(built)
            sides = [side for spec in self._specs.values() for side in self._sides_of(spec, built)]
            self._sides = SideTables(
                self._side_store, self._storage, self._files, sides, self._report
            )
            self._listener.add()
            self._sides.start()
            self._report(PipelineStarted(self.name, tuple(self._specs)))
            for spec in self._specs.values():
                self._sides.catch_up(spec.name)
                self._queries[spec.name] = self._query(spec)
                self._queries[spec.name].start()
            if self._companion is not None:
                self._companion.start(self, self._report)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, *, deadline_s: float | None = None, drains: bool = False) -> bool:
        """Lets every running batch finish and commit, then ends; True where a query had to be
        forced because the deadline passed. With `drains`, what is there now is processed first."""
        with self._stopping:
            if self._is_stopped:
                return False
            self._is_stopped = True
            end = time.monotonic() + (deadline_s or self.settings.stop_deadline_s)
            if drains:
                self._drain(end)
            return self._stop(end)

    def _drain(self, end: float) -> None:
        """Tables that others read come first, so that those find all of it."""
        waiting = [name for name in self._graph.tables if name in self._queries]
        while waiting:
            ready = [name for name in waiting if not self._reads_any(name, waiting)]
            waiting = [name for name in waiting if name not in ready]
            queries = [self._queries[name] for name in ready if self._can_drain(name)]
            for query in queries:
                query.drain(deadline_s=_left(end))
            for query in queries:
                query.await_end(_left(end))

    def _can_drain(self, table: str) -> bool:
        """Whether what is there can be read by a query that is started again."""
        sources = self._graph.sources_of(table)
        is_replayable = all(source.connector.is_replayable for source in sources)
        return is_replayable and self._queries[table].spec.can_drain

    def _reads_any(self, table: str, others: Sequence[str]) -> bool:
        return any(read.name in others for read in self._graph.reads_directly(table))

    def _hear_what_was_told(self) -> None:
        """Waits until what Spark has told so far has reached all listeners; one that is slow, a
        user's own or on a busy machine, holds nothing up for longer than Spark waits."""
        from py4j.protocol import Py4JJavaError

        with contextlib.suppress(Py4JJavaError):
            self._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()

    def _stop(self, end: float) -> bool:
        if self._companion is not None:
            self._companion.close()
        for query in self._queries.values():
            query.request_stop()
        forced = {query: query.finish(deadline_s=_left(end)) for query in self._queries.values()}
        self._hear_what_was_told()
        for query, was_forced in forced.items():
            query.tell_end(was_forced=was_forced)
        self._listener.remove()
        try:
            if self._sides is not None:
                self._catch_up_with_epochs(self._sides)
                self._sides.close()
            if self._reloader is not None:
                self._reloader.close()
            self._hearing.save()
        finally:
            # Also on a full disk: who runs next must not wait for a process that does not run.
            self._ended({name: query.last_batch for name, query in self._queries.items()})
        return any(forced.values())

    def _catch_up_with_epochs(self, sides: SideTables) -> None:
        """Of the epochs of the continuous trigger Spark tells nothing while they run."""
        for name in self._queries:
            if self._specs[name].trigger.kind is TriggerKind.CONTINUOUS:
                sides.catch_up(name)

    def _ended(self, last_batches: Mapping[str, int | None]) -> None:
        self._report(PipelineStopped(self.name, last_batches))

    # Inside

    def _build(self) -> dict[str, BuiltTable]:
        known = self._upstream | self._specs
        sinks = {name: spec.sink for name, spec in known.items()}
        modes = {name: spec.mode for name, spec in known.items()}
        self._frames = Frames(
            self._spark,
            self._graph,
            self.settings,
            self._storage,
            sinks,
            modes,
            versioned=self._versioned,
            gate=self._gate,
        )
        self._reloader = Reloader(self._versioned_lookups(), self._report)
        self._reloader.start()
        built = {}
        for spec in (known[name] for name in self._graph.tables if name in known):
            if spec.name in self._specs:
                self._no_rows_without_checkpoint(spec)
            built[spec.name] = self._frames.stream(spec.name, spec.trigger)
            is_expected = spec.mode is OutputMode.UPDATE or self._graph.is_read(spec.name)
            if is_expected or spec.sink.prepares:
                self._prepare(spec, built[spec.name])
        self._built = dict(built)
        return built

    def _check_gaps(self, built: Mapping[str, BuiltTable]) -> None:
        guard = GapGuard(self._spark, self._storage, self._files, self._report)
        for spec in self._specs.values():
            request_of = partial(self._read_request, trigger=spec.trigger)
            sources, log = self._graph.sources_of(spec.name), self._log(spec.name)
            guard.check(spec.name, built[spec.name], sources, log, request_of)

    def _read_request(self, source: Source, trigger: Trigger) -> ReadRequest:
        return read_request(source, source.connector, self.settings, self._storage, trigger)

    def _versioned_lookups(self) -> dict[str, VersionedLookup]:
        used = {
            definition.name: definition
            for spec in self._specs.values()
            for definition in self._graph.reads_directly(spec.name)
            if isinstance(definition, Lookup) and definition.reload
        }
        return {
            name: VersionedLookup(
                self._spark, self._storage, lookup, partial(self._frames.lookup, lookup)
            )
            for name, lookup in used.items()
        }

    def reload(self, lookup: str) -> bool:
        """Reads a lookup with `reload` anew; whether it has changed."""
        assert self._reloader is not None
        return self._reloader.lookups[lookup].load() is not None

    def _versioned(
        self, table: str, definition: Lookup | Model, *, batch: int | None = None
    ) -> DataFrame | None:
        """The version for the batch that runs, or for one that was."""
        log = self._log(table) if batch is None else self._log(table).until(batch)
        if isinstance(definition, Model):
            return self.model(definition.name).frame(log)
        versions = self._reloader.lookups if self._reloader else {}
        if definition.name not in versions:
            return None
        return versions[definition.name].frame(log)

    @property
    def spark(self) -> SparkSession:
        return self._spark

    def model(self, name: str) -> ModelStore:
        """The versions of a model."""
        return ModelStore(self._storage, self._graph.definitions.models[name], self._spark)

    def stored(self, table: str) -> DataFrame:
        """The rows that a table holds now, read from its sink."""
        return self._frames.stored(table)

    def _gate(self, table: str, source: Source) -> Gate:
        return self._hearing.gate(table, source, self._log(table))

    def _prepare(self, spec: QuerySpec, built: BuiltTable) -> None:
        """Makes the empty table that a merge or another query expects; costs a commit, and sinks
        that nobody reads make their own with the first batch."""
        request = write_request(spec, self.settings, self._storage)
        schema = built.frame._jdf.schema().toDDL()
        if spec.late is not None and spec.late.has_panes:
            counted = partial(self._hearing.counted, spec)
            panes = Panes(spec, built.frame, self._log(spec.name), self._files, counted)
            schema = self._spark.createDataFrame([], panes.schema())._jdf.schema().toDDL()
        spec.sink.prepare(self._spark, schema, request)
        self._frames.prepared.add(spec.name)

    def _no_rows_without_checkpoint(self, spec: QuerySpec) -> None:
        checkpoint = self._storage.checkpoint(spec.name)
        if self._files.exists(f"{checkpoint}/offsets"):
            return
        is_from_batch = self._files.exists(self._storage.batch_mark(spec.name))
        request = write_request(spec, self.settings, self._storage)
        if is_from_batch or (spec.is_managed and spec.sink.holds_rows(self._spark, request)):
            raise RowsWithoutCheckpoint(spec.name, where=spec.table.location)

    def _query(self, spec: QuerySpec) -> Query:
        def last_committed() -> int | None:
            return last_number(self._files, f"{self._storage.checkpoint(spec.name)}/commits")

        return Query(spec, self._launch, last_committed, self._report)

    def _launch(self, spec: QuerySpec) -> Launched:
        # The frame built at the start serves the first launch; a restart reads lookups anew.
        built = self._built.pop(spec.name, None) or self._frames.stream(spec.name, spec.trigger)
        checkpoint = self._storage.checkpoint(spec.name)
        resumed_after = last_number(self._files, f"{checkpoint}/commits")
        self._run_again[spec.name] = last_number(self._files, f"{checkpoint}/offsets")
        request = replace(
            write_request(spec, self.settings, self._storage),
            note=FileNote(self._files, f"{checkpoint}/headwater/sink"),
        )
        spec.sink.tidy(self._spark, request)
        writer = self._writer(spec, built.frame, request).queryName(spec.name)
        writer = triggered(writer, spec).option("checkpointLocation", checkpoint)
        try:
            with (
                watermark_policy(self._spark, spec.table.watermarks),
                scheduled_in(self._spark, share_of(spec.trigger)),
                self._launching,
            ):
                query = writer.start() if self._clock is None else start_on(writer, self._clock)
                self._by_run[str(query.runId)] = spec.name
        except Exception as cause:
            location = spec.table.location
            raise explained(spec.name, location, [str(cause)], last_batch=resumed_after) from cause
        if spec.shape is not None:
            try:
                self._files.write(self._storage.shape(spec.name), spec.shape)
            except BaseException:
                query.stop()
                raise
        return Launched(query, resumed_after)

    def _was_async(self, table: str) -> bool:
        """Whether the query that wrote the checkpoint did not log every batch."""
        path = self._storage.shape(table)
        return self._files.exists(path) and bool(json.loads(self._files.read(path)).get("is_async"))

    def _writer(self, spec: QuerySpec, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        counted = partial(self._hearing.counted, spec)
        if spec.late is None or not spec.late.has_panes:
            writer = spec.sink.write_stream(counted(self._watched(spec, frame)), request)
            return writer.outputMode(spec.mode.value)
        log = self._log(spec.name)
        panes = self._panes[spec.name] = Panes(spec, frame, log, self._files, counted)
        updates = self._watched(spec, panes.frame).writeStream.outputMode("update")
        return updates.foreachBatch(panes.writer(request))

    def _watched(self, spec: QuerySpec, frame: DataFrame) -> DataFrame:
        return self._hearing.watched(spec, frame, self._log(spec.name))

    def _log(self, table: str) -> OffsetLog:
        return OffsetLog(self._files, self._storage.checkpoint(table))

    def _sides_of(self, spec: QuerySpec, built: Mapping[str, BuiltTable]) -> Iterator[SideTable]:
        frame, log = built[spec.name].frame, self._log(spec.name)

        def again(batch: int) -> BuiltTable:
            """A batch that is read again tells nobody, and joins what it joined before."""
            versioned = partial(self._versioned, batch=batch)
            unheard = replace(self._frames, gate=lambda table, source: None, versioned=versioned)
            return unheard.stream(spec.name, spec.trigger)

        replay = Replay(
            again,
            log,
            self._files,
            self._storage.replays(spec.name),
        )
        if spec.late is not None and spec.late.keeps_rows:
            yield LateRows(spec.name, frame, self._graph.sources_of(spec.name), log, replay)
        for name in reported_by(self._graph, spec.name):
            index = source_index(frame, built[spec.name].judged_sources[name])
            if index is None:
                continue
            source = self._graph.definitions.sources[name]
            request = self._read_request(source, spec.trigger)
            yield RejectedRecords(
                self._spark,
                source,
                spec.name,
                request,
                log,
                replay,
                index=index,
            )

    def _on_progress(self, run_id: str, progress: dict[str, Any]) -> None:
        with self._launching:
            table = self._by_run.get(run_id)
        if table is None:
            return
        told = self._hearing.heard(table, progress)
        self._report(told.event)
        if self._sides is not None:
            # A file sink leaves out a batch that it has, and then its query hears of no row of it.
            is_again = told.event.batch == self._run_again.get(table)
            self._sides.decide(table, told.event.batch, None if is_again else told)


def _left(end: float) -> float:
    return max(0.0, end - time.monotonic())
