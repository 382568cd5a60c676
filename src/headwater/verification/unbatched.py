"""Triggers without batches that could be cut: continuous and real time, compared at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.connectors.interface import ALL_MODES, Connector, ReadRequest, WriteRequest
from headwater.definitions import (
    Definitions,
    OutputMode,
    Source,
    Table,
    Trigger,
    TriggerKind,
)
from headwater.events import silent
from headwater.planning import make_plan
from headwater.runtime.queries import RunningQueries
from headwater.testing.kept import Row
from headwater.testing.scene import Content, Scene
from headwater.testing.tape import Tape
from headwater.testing.values import difference, from_arrow
from headwater.verification.problems import Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TRIGGERS = (Trigger.continuous("1 second"), Trigger.real_time("5 seconds"))
_KINDS = frozenset({TriggerKind.CONTINUOUS, TriggerKind.REAL_TIME})
_WAIT_S = 30.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class UnbatchedSource(Connector):
    """The rows of a tape as Spark's own in-memory streams for these triggers give them."""

    system: ClassVar[str] = "tape"
    reads_streams: ClassVar[bool] = True
    is_replayable: ClassVar[bool] = True
    read_triggers: ClassVar[frozenset[TriggerKind]] = _KINDS

    tape: Tape = field(hash=False)

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        return self.tape.unbatched(spark, is_continuous=request.trigger is TriggerKind.CONTINUOUS)

    def describe(self) -> str:
        return "rows of a test"


@dataclass(frozen=True, slots=True)
class UnbatchedSink(Connector):
    """Spark's memory sink, which these triggers can write."""

    system: ClassVar[str] = "kept"
    writes: ClassVar[bool] = True
    write_triggers: ClassVar[frozenset[TriggerKind]] = _KINDS

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return ALL_MODES

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        return frame.writeStream.format("memory").queryName(request.table)


def problem_of(scene: Scene, table: str, trigger: Trigger, batch: Content) -> Problem | None:
    """What is wrong with a table under a trigger; raises TriggerImpossible where it cannot be."""
    replaced: dict[str, Any] = {}
    for name, definition in scene.definitions.by_name.items():
        if isinstance(definition, Source):
            source = UnbatchedSource(scene.tape(name))
            replaced[name] = replace(definition, connector=source)
        elif isinstance(definition, Table) and name == table:
            mode = None if trigger.kind is TriggerKind.CONTINUOUS else OutputMode.UPDATE
            replaced[name] = replace(definition, into=UnbatchedSink(), mode=mode)
        else:
            replaced[name] = definition
    definitions = Definitions(scene.definitions.pipeline, replaced)
    plan = make_plan(
        definitions, scene.settings, tables=[table], trigger=trigger, spark=scene.spark
    )
    run = RunningQueries(scene.spark, plan.graph, plan.queries, scene.settings, silent)
    run.start()
    try:
        found = _awaited(scene.spark, table, len(batch.rows), run)
    finally:
        for query in run.queries.values():
            query.streaming_query.stop()
        run.stop(deadline_s=10)
    run.raise_failure()
    missing, extra = difference(batch.rows, found)
    if not missing and not extra:
        return None
    law = f"the stream's result is the batch's, under the trigger {trigger}"
    return Problem(table, law, tuple(batch.schema.names), missing, extra, expected=batch.rows)


def _awaited(spark: SparkSession, table: str, count: int, run: RunningQueries) -> list[Row]:
    """The rows as soon as there are as many as expected; what there is after a while."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        rows = from_arrow(spark.table(table).toArrow())
        if len(rows) >= count or time.monotonic() > deadline or not run.is_active:
            return rows
        time.sleep(_POLL_S)


def is_stateless(scene: Scene, table: str) -> bool:
    decisions = scene.plan.tables[table].decisions
    return decisions is not None and not decisions.facts.stateful
