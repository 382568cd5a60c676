"""A pipeline under test: its sources are tapes, its sinks can be looked into, its clock stands."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.connectors import delta
from headwater.connectors.foreach import FunctionSink
from headwater.connectors.interface import REJECTED, Connector, struct_type
from headwater.definitions import (
    NO_GUARD,
    Definition,
    Definitions,
    Lookup,
    OutputMode,
    Source,
    Table,
    Trigger,
    TriggerKind,
    duration_ms,
)
from headwater.errors import (
    CrashPointUnreached,
    NoSource,
    RowsNotKept,
    SourceColumnsUnknown,
    TriggerNotTestable,
    UnknownLookup,
    UnknownModel,
    UnknownSource,
    UnknownTable,
)
from headwater.event_time.late import late_rows, without_late
from headwater.event_time.watermark import watermark_at
from headwater.events import BatchCompleted, Event, LateCount, Report, silent
from headwater.graph import Graph, resolve
from headwater.learning import trainer_of
from headwater.planning import Plan, make_plan
from headwater.planning.inputs import with_placeholders
from headwater.runtime.batch import frames_of
from headwater.runtime.clock import ManualClock
from headwater.runtime.failures import explained
from headwater.runtime.late import late_name
from headwater.runtime.models import ModelStore, Version
from headwater.runtime.queries import RunningQueries
from headwater.runtime.query import Query
from headwater.runtime.specification import QuerySpec, read_request, write_request
from headwater.runtime.storage import Files, Storage
from headwater.testing.kept import KeptRows, KeptSides, KeptSink, Row
from headwater.testing.sessions import active_session, fast_folder, make_active, own_session
from headwater.testing.steps import WAIT_S, Steps
from headwater.testing.tape import (
    HeldRows,
    LookupRows,
    ParsedTapeSource,
    Tape,
    TapeSource,
    lookup_rows,
)
from headwater.testing.values import DAY, Rows, arrow_table, from_arrow, moment_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headwater.pipeline import Pipeline

TESTABLE = (
    TriggerKind.DEFAULT,
    TriggerKind.PROCESSING_TIME,
    TriggerKind.ONCE,
    TriggerKind.AVAILABLE_NOW,
)


@dataclass(frozen=True, slots=True)
class Stage:
    """How a pipeline is put to the test. `keep` names tables whose own sink stays."""

    lookups: Mapping[str, Rows] = field(default_factory=dict)
    models: Mapping[str, Rows] = field(default_factory=dict)
    models_of: Storage | None = None
    """Where the versions of models are taken from that have no rows here."""
    keep: Collection[str] = ()
    modes: Mapping[str, str] = field(default_factory=dict)
    trigger: str | Trigger | None = None
    schemas: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 1
    rejects: bool = False
    """Whether records may be rejected: the parser's verdict is then part of the query."""
    drives_all: bool = False
    """Whether a table whose own trigger no test can drive gets the default one."""


@dataclass(frozen=True, slots=True)
class Content:
    """A table's rows with their columns."""

    schema: StructType
    rows: list[Row]


class Scene:
    """Adds, processes, stops, crashes and restarts; and reads what came of it."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, stage: Stage | None = None) -> None:
        self.stage = stage or Stage()
        self.spark = own_session(spark, self.stage.partitions)
        self.folder = Path(tempfile.mkdtemp(prefix="headwater-test-", dir=fast_folder()))
        self.tapes: dict[str, Tape] = {}
        self.kept: dict[str, KeptRows] = {}
        self.sides = KeptSides()
        self._lookups: dict[str, HeldRows] = {}
        self.clock: ManualClock | None = None
        self.run: RunningQueries | None = None
        self._late: dict[tuple[str, int], LateCount] = {}
        self._progress: dict[str, dict[str, Any]] = {}
        self.report: Report = silent
        """Hears what the queries report."""
        self._active_before = active_session()
        try:
            self._use(pipeline)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the queries and removes everything they wrote."""
        try:
            self.kill()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            # PySpark makes every session active that builds a DataFrame.
            make_active(self._active_before)

    # What is under test

    def _use(self, pipeline: Pipeline) -> None:
        self.settings = replace(pipeline.settings, storage=str(self.folder))
        self.storage = Storage(self.settings.storage_root, pipeline.name)
        graph = resolve(pipeline.definitions())
        if not graph.definitions.sources:
            raise NoSource(pipeline.name)
        for name in self.stage.lookups:
            if name not in graph.definitions.of(Lookup):
                raise UnknownLookup(name, graph.definitions.of(Lookup))
        for name in (*self.stage.keep, *self.stage.modes):
            if name not in graph.tables:
                raise UnknownTable(name, graph.tables)
        replaced = {name: self._replaced(d, graph) for name, d in graph.definitions.by_name.items()}
        self.definitions = Definitions(pipeline.name, replaced)
        self.graph = resolve(self.definitions)
        self._plan: Plan | None = None
        self._set_models()

    def _set_models(self) -> None:
        """Models hold the rows of the test, else what the pipeline's own storage holds."""
        models = self.definitions.models
        for name in self.stage.models:
            if name not in models:
                raise UnknownModel(name, models)
        for name, model in models.items():
            store, origin = ModelStore(self.storage, model, self.spark), self.stage.models_of
            if store.versions():
                continue
            if name in self.stage.models:
                schema = struct_type(model.columns)
                rows = lookup_rows(self.stage.models[name], schema, name)
                store.publish_rows(self.spark.createDataFrame(rows, schema))
            elif origin is not None and origin.is_local:
                Files(origin).copy(origin.model(name), self.storage.model(name))

    def train(self, model: str) -> Version:
        """Trains a model at once, as if its time had come."""
        if model not in self.definitions.models:
            raise UnknownModel(model, self.definitions.models)
        trained = trainer_of(self.start(), model, self._heard).train()
        assert trained is not None
        return trained

    def _replaced(self, definition: Definition, graph: Graph) -> Definition:
        match definition:
            case Source():
                # The clock of a test starts at the first row: only a guard that was asked for
                # looks at it.
                guard = definition.max_ahead or NO_GUARD
                tape = self._tape_source(definition, graph)
                return replace(definition, connector=tape, max_ahead=guard)
            case Lookup() if definition.name in self.stage.lookups:
                return replace(definition, connector=self._lookup_rows(definition, graph))
            case Table():
                return self._replaced_table(definition, graph)
        return definition

    def _replaced_table(self, table: Table, graph: Graph) -> Table:
        mode = self.stage.modes.get(table.name)
        table = replace(table, mode=OutputMode(mode)) if mode else table
        if self.stage.drives_all and table.trigger.kind not in TESTABLE:
            table = replace(table, trigger=Trigger.default())
        if table.name in self.stage.keep:
            return table
        if graph.is_read(table.name):
            # Others find it as a managed table, in the test's own storage.
            return replace(table, into=None)
        kept = self.kept.setdefault(table.name, KeptRows())
        return replace(table, into=KeptSink(kept, table.into or delta()))

    def _tape_source(self, source: Source, graph: Graph) -> TapeSource:
        schema = self._columns(source, graph)
        tape = self.tapes.setdefault(source.name, Tape(source.name, schema, source.event_time))
        if not (self.stage.rejects and source.connector.parses and source.schema):
            tape.parser = None
            return TapeSource(tape)
        request = read_request(
            source, source.connector, self._reachable(graph), self.storage, Trigger.default()
        )
        tape.parser = source.connector.parser(request)
        return ParsedTapeSource(tape)

    def _lookup_rows(self, lookup: Lookup, graph: Graph) -> LookupRows:
        schema = self._columns(lookup, graph)
        held = self._lookups.get(lookup.name)
        if held is None:
            held = HeldRows(_lookup_table(self.stage.lookups[lookup.name], schema, lookup.name))
        self._lookups[lookup.name] = held
        return LookupRows(held, schema)

    def _columns(self, definition: Source | Lookup, graph: Graph) -> StructType:
        """The columns that the definition's own connector would deliver."""
        given = self.stage.schemas.get(definition.name)
        if given is not None:
            return struct_type(given)
        if definition.schema is not None and not getattr(definition.connector, "fields", ()):
            return struct_type(definition.schema)
        connector, settings = definition.connector, self._reachable(graph)
        request = read_request(definition, connector, settings, self.storage, Trigger.default())
        read = connector.read_stream if isinstance(definition, Source) else connector.read_batch
        try:
            frame = read(self.spark, request)
        except Exception as problem:
            raise SourceColumnsUnknown(definition.name, connector.describe()) from problem
        return frame.drop(REJECTED).schema

    def _reachable(self, graph: Graph) -> Any:
        connectors: list[Connector] = [
            d.connector
            for d in graph.definitions.by_name.values()
            if isinstance(d, Source | Lookup)
        ]
        return with_placeholders(self.settings, connectors)

    def change_lookup(self, name: str, rows: Rows) -> None:
        """Another content of a lookup; queries see it when they read it anew."""
        lookups = self.definitions.of(Lookup)
        if name not in lookups:
            raise UnknownLookup(name, lookups)
        connector = lookups[name].connector
        if not isinstance(connector, LookupRows):
            raise UnknownLookup(name, self._lookups)
        connector.held.table = _lookup_table(rows, connector.schema, name)
        if self.run is not None and lookups[name].reload:
            self.run.reload(name)

    # Sources

    def tape(self, source: str) -> Tape:
        if source not in self.tapes:
            raise UnknownSource(source, self.tapes)
        return self.tapes[source]

    def watermark_delay(self, source: str) -> str | None:
        self.tape(source)
        return self.definitions.sources[source].delay

    # Running

    @property
    def plan(self) -> Plan:
        if self._plan is None:
            trigger = None if self.stage.trigger is None else Trigger.parse(self.stage.trigger)
            self._plan = make_plan(
                self.definitions, self.settings, trigger=trigger, spark=self.spark
            )
            for spec in self._plan.queries:
                if spec.trigger.kind not in TESTABLE:
                    raise TriggerNotTestable(spec.name, str(spec.trigger))
        return self._plan

    def spec(self, table: str) -> QuerySpec:
        if table not in self.graph.tables:
            raise UnknownTable(table, self.graph.tables)
        return self.plan.tables[table].query

    def start(self) -> RunningQueries:
        """Starts the queries where they do not run."""
        if self.run is None:
            plan = self.plan
            plan.require_resumable()
            if self.clock is None:
                self.clock = ManualClock(self.spark, self._first_ms())
            for tape in self.tapes.values():
                tape.push()
            run = RunningQueries(
                self.spark,
                plan.graph,
                plan.queries,
                self.settings,
                self._heard,
                upstream=plan.inputs,
                clock=self.clock,
                measures=False,
                side_store=self.sides,
            )
            self.run = run.start()
            self._steps = Steps(self.clock, run.queries)
            for query in run.queries.values():
                if query.spec.trigger.interval:
                    self._steps.await_trigger(query, None)
        return self.run

    def _push(self) -> None:
        """Lets the queries see what was added, all of it in one batch."""
        self.start()
        with self._steps.at_rest():
            for tape in self.tapes.values():
                tape.push()

    def process(self) -> None:
        """Returns when every table has processed everything there is."""
        run = self.start()
        self._push()
        for name in self.graph.tables:
            self._steps.process(run[name])
            self._require_alive(run[name])

    def move_event_time(self, source: str, to: Any) -> None:
        """Lets the watermark of a source pass on, and processes what it closes."""
        self.move_event_times({source: to})

    def move_event_times(self, moments: Mapping[str, Any]) -> None:
        """Several sources at once: Spark forgets how far each was when a query starts again, so
        that the slowest counts only where all of them move in one run."""
        # A run of one batch applies its watermark in the next run that finds something.
        is_once = any(spec.trigger.kind is TriggerKind.ONCE for spec in self.plan.queries)
        for _ in range(2 if is_once else 1):
            for source, to in moments.items():
                self.tape(source).move(to)
            self.process()

    def advance(self, duration: str) -> None:
        """Moves the clock; every trigger on the way fires once, in order."""
        self._push()
        assert self.clock is not None
        self._steps.advance_to(self.clock.now_ms + duration_ms(duration))
        assert self.run is not None
        for query in self.run.queries.values():
            if query.spec.trigger.kind is TriggerKind.DEFAULT:
                self._steps.drain(query)
            self._require_alive(query)

    def stop(self) -> None:
        if self.run is not None:
            self._remember_progress()
            run, self.run = self.run, None
            run.stop(deadline_s=WAIT_S)
            run.raise_failure()

    def kill(self) -> None:
        """Ends the queries at once, wherever they are."""
        if self.run is not None:
            self._remember_progress()
            run, self.run = self.run, None
            for query in run.queries.values():
                query.streaming_query.stop()
            run.stop(deadline_s=WAIT_S)

    def restart(self, pipeline: Pipeline | None = None) -> None:
        self.kill()
        if pipeline is not None:
            self._use(pipeline)
        self.start()

    def crash_before_sink(self, tables: Collection[str]) -> None:
        """Every named table dies in its next batch: logged, not written."""
        for table in tables:
            self.spec(table)
            if table not in self.kept:
                raise CrashPointUnreached("before_sink", table, "its own sink is kept")
            self.kept[table].crashes_before_next = True
            self.kept[table].has_crashed = False
        run = self.start()
        self._push()
        for name in self.graph.tables:
            # What a query says is what was done to it.
            with contextlib.suppress(Exception):
                self._steps.process(run[name])
        self.kill()
        for table in tables:
            self.kept[table].crashes_before_next = False
        for table in tables:
            if not self.kept[table].has_crashed:
                raise CrashPointUnreached("before_sink", table, "it had nothing to process")

    def crash_after_sink(self, tables: Collection[str]) -> None:
        """Every named table dies between the sink and the commit of its last batch."""
        if self.run is not None or any(not tape.is_empty for tape in self.tapes.values()):
            self.process()
        self.kill()
        for table in tables:
            self.spec(table)
            commits = Path(self.storage.checkpoint(table)) / "commits"
            numbers = [int(f.name) for f in commits.glob("*") if f.name.isdigit()]
            if not numbers:
                raise CrashPointUnreached("after_sink", table, "it has written no batch")
            (commits / str(max(numbers))).unlink()
            (commits / f".{max(numbers)}.crc").unlink(missing_ok=True)

    def _require_alive(self, query: Query) -> None:
        problem = query.exception
        if problem is None:
            return
        failure = self.kept[query.name].failure if query.name in self.kept else None
        if failure is None:
            raise problem
        location, last = query.spec.table.location, query.last_batch
        raise explained(query.name, location, [str(failure)], last_batch=last) from failure

    def _first_ms(self) -> int:
        moments = [tape.first_moment() for tape in self.tapes.values()]
        return min((moment_ms(m) for m in moments if m is not None), default=moment_ms(DAY))

    # Looking

    def content(self, table: str) -> Content:
        """A table's result, its late rows, or the rejected records of a source."""
        if (of := table.removesuffix("__late")) != table and of in self.graph.tables:
            return self._late_rows(of)
        source = table.removesuffix("__rejected")
        if source != table and source in self.tapes:
            return self._rejected(source)
        spec = self.spec(table)
        if table in self.kept:
            return self._kept(spec)
        return _collected(self._read(spec))

    def _kept(self, spec: QuerySpec) -> Content:
        kept = self.kept[spec.name]
        schema = kept.schema or self.frame_schema(spec.name)
        return Content(schema, kept.result(spec.mode, spec.table.key, spec.table.order_by))

    def frame_schema(self, table: str) -> StructType:
        return self._frame(table).schema

    def _read(self, spec: QuerySpec) -> DataFrame:
        is_read_back = isinstance(spec.sink, FunctionSink) and spec.sink.read is not None
        if not spec.sink.reads_batches and not is_read_back:
            raise RowsNotKept(spec.name, spec.sink.describe(), where=spec.table.location)
        request = read_request(
            spec.table, spec.sink, self.settings, self.storage, Trigger.default()
        )
        if spec.sink.needs_schema:
            ddl = self.frame_schema(spec.name)
            columns = self.spark.createDataFrame([], ddl)._jdf.schema().toDDL()
            request = replace(request, schema=columns)
        written = write_request(spec, self.settings, self.storage)
        if spec.is_managed and not spec.sink.holds_rows(self.spark, written):
            return self.spark.createDataFrame([], self.frame_schema(spec.name))
        return spec.sink.read_batch(self.spark, request).drop(REJECTED)

    def _late_rows(self, table: str) -> Content:
        if self.run is not None:
            self.run.await_sides()
        found = self.sides.frame(self.spark, late_name(table))
        if found is not None:
            return _collected(found)
        empty = late_rows(self._frame(table), 0, watermark_at(0)).schema
        return Content(empty.add("watermark", "timestamp").add("batch", "long"), [])

    def _rejected(self, source: str) -> Content:
        if self.run is not None:
            self.run.await_sides()
        found = self.sides.frame(self.spark, f"{source}__rejected")
        if found is None:
            empty = self.spark.createDataFrame([], "reason string, raw string")
            return Content(empty.schema, [])
        return _collected(found.selectExpr("reason", "CAST(raw AS string) AS raw"))

    def batch(self) -> dict[str, Content]:
        """What a batch run over everything added so far gives, table by table, less the rows that
        were late for the table."""
        plan = make_plan(self.definitions, self.settings, for_batch=True, spark=self.spark)
        sinks = {query.name: query.sink for query in plan.queries}
        frames = frames_of(self.spark, plan.graph, self.settings, sinks)
        return {name: _collected(self._in_time(name, frames[name])) for name in self.graph.tables}

    def _in_time(self, table: str, batch: DataFrame) -> DataFrame:
        if self.run is not None:
            self.run.await_sides()
        late = self.sides.frame(self.spark, late_name(table))
        if late is None:
            return batch
        return without_late(batch, self._frame(table), late)

    def _frame(self, table: str) -> DataFrame:
        decisions = self.plan.tables[table].decisions
        assert decisions is not None
        return decisions.frame

    def progress(self, table: str) -> dict[str, Any] | None:
        """The last progress of a table, also of a run that has ended."""
        self.spec(table)
        self._remember_progress()
        return self._progress.get(table)

    def _remember_progress(self) -> None:
        for name, query in (self.run.queries if self.run else {}).items():
            if (progress := query.progress) is not None:
                self._progress[name] = progress

    def late_count(self, table: str) -> LateCount:
        """The rows of a table by how they stood to the watermark; a batch that ran again counts
        once."""
        self.spec(table)
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        return sum((c for (name, _), c in self._late.items() if name == table), LateCount())

    def _heard(self, event: Event) -> None:
        self.report(event)
        if isinstance(event, BatchCompleted):
            self._late[event.table, event.batch] = event.late or LateCount()

    def watermark_ms(self, table: str) -> int | None:
        """The watermark of the table's last batch."""
        text = ((self.progress(table) or {}).get("eventTime") or {}).get("watermark")
        return None if text is None else moment_ms(text)


def _lookup_table(rows: Rows, schema: StructType, name: str) -> Any:
    return arrow_table(lookup_rows(rows, schema, name), schema, what=f"lookup {name}")


def _collected(frame: DataFrame) -> Content:
    return Content(frame.schema, from_arrow(frame.toArrow()))
