"""The plan of a pipeline: every open choice made and explained, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.connectors import delta
from headwater.connectors.interface import Connector, jars_of
from headwater.connectors.upserts import keeps_last_of_key
from headwater.definitions import (
    Definitions,
    Guarantee,
    Lookup,
    Model,
    OutputMode,
    Source,
    Table,
    Trigger,
    TriggerKind,
)
from headwater.errors import (
    CheckpointIncompatible,
    TriggerImpossible,
    UnknownTable,
)
from headwater.event_time.late import watched_entries
from headwater.events import Report, silent
from headwater.graph import Graph, laws, resolve
from headwater.planning import startability
from headwater.planning.analysis import QueryFacts, facts_of
from headwater.planning.checkpoints import CheckpointState, checkpoint_state
from headwater.planning.guarantees import GuaranteeChoice, choose_guarantee
from headwater.planning.inputs import (
    Address,
    StreamInput,
    addresses_of,
    require_readable_tables,
    stream_inputs,
    with_placeholders,
)
from headwater.planning.keys import (
    is_told_apart,
    key_is_in_result,
    the_last_row_of_a_key_is_known,
)
from headwater.planning.lateness import LateChoice, check_watermarks, choose_late
from headwater.planning.modes import ModeChoice, choose_mode
from headwater.planning.notes import notes_of
from headwater.planning.partitions import input_partitions
from headwater.planning.triggers import (
    TriggerQuestion,
    TriggerVerdict,
    interval_problem,
    verdict,
    verdicts,
)
from headwater.planning.verdicts import shape_of
from headwater.runtime.frames import Frames
from headwater.runtime.session import open_session
from headwater.runtime.specification import QuerySpec
from headwater.runtime.storage import Files, Storage
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Decisions:
    """Why a table's query is what it is; the parts of `headwater plan`."""

    frame: DataFrame
    facts: QueryFacts
    mode: ModeChoice
    trigger_question: TriggerQuestion
    trigger_reason: str
    guarantee: GuaranteeChoice
    late: LateChoice
    checkpoint: CheckpointState
    addresses: tuple[Address, ...]
    notes: tuple[str, ...]

    @property
    def triggers(self) -> dict[TriggerKind, TriggerVerdict]:
        """A verdict per kind of trigger. Found out when asked: a start needs its own only."""
        return verdicts(self.trigger_question)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What was decided for one table; without decisions in a plan for a batch."""

    query: QuerySpec
    decisions: Decisions | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Every table's query, decided and explained.

    >>> plan = app.plan()            # doctest: +SKIP
    >>> print(as_text(plan))         # doctest: +SKIP
    """

    spark: SparkSession
    graph: Graph
    settings: Settings
    tables: dict[str, TablePlan]
    upstream: dict[str, TablePlan] = field(default_factory=dict)
    """Tables that the planned ones read and that were not asked for."""

    @property
    def queries(self) -> list[QuerySpec]:
        return [table.query for table in self.tables.values()]

    @property
    def inputs(self) -> list[QuerySpec]:
        return [table.query for table in self.upstream.values()]

    def require_startable(self) -> None:
        """Raises the first problem that a start would meet: asks every system that is read or
        written whether it is there."""
        resumed = {
            name
            for name, table in self.tables.items()
            if table.decisions is not None and not table.decisions.checkpoint.is_new
        }
        startability.check(self.graph, self.settings, self.queries, resumed)
        self.require_resumable()

    def require_resumable(self) -> None:
        """Raises CheckpointIncompatible for the first table that its checkpoint does not fit."""
        for name, table in self.tables.items():
            if table.decisions is None:
                continue
            problems = table.decisions.checkpoint.verdict.problems
            if problems and not table.decisions.checkpoint.is_new:
                raise CheckpointIncompatible(name, problems, where=table.query.table.location)


def make_plan(
    definitions: Definitions,
    settings: Settings,
    *,
    tables: Sequence[str] | None = None,
    trigger: Trigger | None = None,
    report: Report = silent,
    for_batch: bool = False,
    spark: SparkSession | None = None,
) -> Plan:
    """The plan of all tables, or of those named; needs no system but Spark.

    `trigger` replaces every table's own. `for_batch` decides only what a batch run needs. `spark`
    defaults to the active session, else a new one.
    """
    graph = resolve(definitions)
    laws.check(graph, settings)
    names = _chosen(graph, tables)
    sinks: dict[str, Connector] = {t.name: t.into or delta() for t in graph.tables.values()}
    connectors = [*sinks.values(), *_input_connectors(definitions)]
    if definitions.models:
        connectors.append(delta())
    spark = spark or open_session(settings, jars_of(connectors), report=report)
    if for_batch:
        plans = {name: _for_batch(graph.tables[name], sinks[name]) for name in names}
        return Plan(spark, graph, settings, plans)
    planner = _Planner(spark, graph, settings, sinks, trigger)
    needed = _with_upstream(graph, names)
    decided = {
        name: planner.table_plan(graph.tables[name]) for name in graph.tables if name in needed
    }
    chosen = {name: decided[name] for name in graph.tables if name in names}
    upstream = {name: plan for name, plan in decided.items() if name not in names}
    return Plan(spark, graph, settings, chosen, upstream)


def _chosen(graph: Graph, tables: Sequence[str] | None) -> list[str]:
    for name in tables or ():
        if name not in graph.tables:
            raise UnknownTable(name, graph.tables)
    return list(graph.tables) if tables is None else list(tables)


def _input_connectors(definitions: Definitions) -> list[Connector]:
    return [d.connector for d in definitions.by_name.values() if isinstance(d, Source | Lookup)]


def _with_upstream(graph: Graph, names: Sequence[str]) -> set[str]:
    """Also the tables that the named ones read: their columns and modes are needed."""
    needed = set(names)
    for name in reversed(list(graph.tables)):
        if name in needed:
            needed |= {d.name for d in graph.reads_directly(name) if isinstance(d, Table)}
            models = [d for d in graph.reads_directly(name) if isinstance(d, Model)]
            needed |= {model.trained_on for model in models}
    return needed


def _for_batch(table: Table, sink: Connector) -> TablePlan:
    mode = table.mode or (OutputMode.UPDATE if keeps_last_of_key(table) else OutputMode.APPEND)
    return TablePlan(QuerySpec(table, sink, mode, table.trigger, Guarantee.EXACTLY_ONCE))


class _Planner:
    """Decides table after table, in the graph's order: a table's mode says how others read it."""

    def __init__(
        self,
        spark: SparkSession,
        graph: Graph,
        settings: Settings,
        sinks: Mapping[str, Connector],
        override: Trigger | None,
    ) -> None:
        self._graph = graph
        self._settings = settings
        self._sinks = sinks
        self._override = override
        self._storage = Storage(settings.storage_root, graph.definitions.pipeline)
        self._files = Files(self._storage, spark)
        self._modes: dict[str, OutputMode] = {}
        inputs = _input_connectors(graph.definitions)
        self._frames = Frames(
            spark,
            graph,
            with_placeholders(settings, inputs),
            self._storage,
            sinks,
            self._modes,
        )

    def table_plan(self, table: Table) -> TablePlan:
        sink = self._sinks[table.name]
        trigger = self._override or table.trigger
        require_readable_tables(self._graph, table, self._sinks)
        frame = self._frame(table, trigger)
        facts = facts_of(frame)
        key_is_in_result(table, facts)
        mode = choose_mode(table, sink, trigger, frame, facts)
        the_last_row_of_a_key_is_known(table, sink, mode.mode, frame)
        inputs = stream_inputs(self._graph, table.name, self._sinks, self._modes)
        question = self._question(table, frame, facts, inputs, mode)
        _require_trigger(table, trigger, question)
        guarantee = choose_guarantee(
            table,
            inputs=inputs,
            facts=facts,
            sink=sink,
            mode=mode.mode,
            trigger=trigger,
            is_told_apart=sink.compares_rows and is_told_apart(table, mode.mode, frame),
            is_speculative=frame.sparkSession.conf.get("spark.speculation", "false") == "true",
        )
        late = choose_late(table, frame, inputs, sink)
        sources = self._graph.sources_of(table.name)
        check_watermarks(table, trigger, frame, facts, sources)
        self._modes[table.name] = mode.mode
        shape = shape_of(
            self._graph.definitions.pipeline,
            table.name,
            inputs=[one.name for one in inputs],
            sources=sources,
            facts=facts,
            windows=[entry.window for entry in watched_entries(frame) if entry.window],
            mode=mode.mode,
            partitions=self._settings.shuffle_partitions or self._settings.cores,
            is_async=guarantee.is_async_progress,
        )
        checkpoint = checkpoint_state(self._files, self._storage, table.name, shape)
        addresses = addresses_of(self._graph, table, sink, self._settings, self._storage)
        decisions = Decisions(
            frame=frame,
            facts=facts,
            mode=mode,
            trigger_question=question,
            trigger_reason=self._trigger_reason(table),
            guarantee=guarantee,
            late=late,
            checkpoint=checkpoint,
            addresses=addresses,
            notes=(
                *notes_of(self._graph, table, facts, mode.mode, guarantee, self._modes),
                *checkpoint.verdict.notes,
            ),
        )
        query = QuerySpec(
            table,
            sink,
            mode.mode,
            trigger,
            guarantee.guarantee,
            guarantee.is_async_progress,
            late.policy,
            shape.text(),
            facts.python,
        )
        return TablePlan(query, decisions)

    def _frame(self, table: Table, trigger: Trigger) -> DataFrame:
        """The query's DataFrame; a missing folder is named before Spark stumbles over it."""
        try:
            return self._frames.stream(table.name, trigger).frame
        except Exception:
            startability.check_files(self._graph, table, self._settings, self._storage)
            raise

    def _question(
        self,
        table: Table,
        frame: DataFrame,
        facts: QueryFacts,
        inputs: list[StreamInput],
        mode: ModeChoice,
    ) -> TriggerQuestion:
        sink = self._sinks[table.name]
        return TriggerQuestion(
            frame=frame,
            facts=facts,
            inputs=inputs,
            sink=sink,
            mode=mode.mode,
            modes_of_sink=sink.modes(has_key=bool(table.key)),
            is_mode_asked=table.mode is not None,
            cores=self._settings.cores,
            build=lambda trigger: self._frames.stream(table.name, trigger).frame,
            partitions=lambda: input_partitions(inputs, self._settings),
        )

    def _trigger_reason(self, table: Table) -> str:
        if self._override is not None:
            return "asked for by this run"
        if table.trigger.kind is TriggerKind.DEFAULT:
            return "the default: a batch as soon as the one before has ended"
        return "asked for"


def _require_trigger(table: Table, trigger: Trigger, question: TriggerQuestion) -> None:
    problems = list(verdict(question, trigger.kind).problems)
    if too_short := interval_problem(trigger, question.frame):
        problems.append(too_short)
    if problems:
        possible = [found.kind.value for found in verdicts(question).values() if found.is_possible]
        raise TriggerImpossible(
            table.name, str(trigger), problems, possible=possible, where=table.location
        )
