"""Triggers without batches that could be cut: continuous and real time, compared at the end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.connectors.interface import ALL_MODES, Connector, ReadRequest
from headwater.definitions import (
    Definitions,
    OutputMode,
    Source,
    Table,
    Trigger,
    TriggerKind,
)
from headwater.planning import make_plan
from headwater.runtime.clock import start_on
from headwater.runtime.launching import triggered
from headwater.runtime.specification import QuerySpec
from headwater.testing.kept import Row
from headwater.testing.scene import Content, Scene
from headwater.testing.tape import Tape
from headwater.testing.values import difference, from_arrow
from headwater.verification.problems import Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
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
    """Stands for the sink in memory that these triggers can write."""

    system: ClassVar[str] = "kept"
    writes: ClassVar[bool] = True
    write_triggers: ClassVar[frozenset[TriggerKind]] = _KINDS

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return ALL_MODES


def problem_of(scene: Scene, table: str, trigger: Trigger, batch: Content) -> Problem | None:
    """What is wrong with a table under a trigger; raises TriggerImpossible where it cannot be."""
    replaced: dict[str, Any] = {}
    for name, definition in scene.definitions.by_name.items():
        if isinstance(definition, Source):
            source = UnbatchedSource(scene.tape(name))
            replaced[name] = replace(definition, connector=source, max_per_batch=None)
        elif isinstance(definition, Table) and name == table:
            mode = None if trigger.kind is TriggerKind.CONTINUOUS else OutputMode.UPDATE
            replaced[name] = replace(definition, into=UnbatchedSink(), mode=mode)
        else:
            replaced[name] = definition
    definitions = Definitions(scene.definitions.pipeline, replaced)
    plan = make_plan(
        definitions, scene.settings, tables=[table], trigger=trigger, spark=scene.spark
    )
    decisions = plan.tables[table].decisions
    assert decisions is not None
    found = _streamed(scene, decisions.frame, plan.tables[table].query, len(batch.rows))
    missing, extra = difference(batch.rows, found)
    if not missing and not extra:
        return None
    law = f"the stream's result is the batch's, under the trigger {trigger}"
    return Problem(table, law, tuple(batch.schema.names), missing, extra, expected=batch.rows)


def _streamed(scene: Scene, frame: DataFrame, spec: QuerySpec, count: int) -> list[Row]:
    """The rows as soon as there are as many as expected; what there is after a while."""
    folder = scene.folder / f"unbatched-{spec.trigger.kind.name.lower()}-{spec.name}"
    writer = triggered(frame.writeStream.outputMode(spec.mode.value), spec)
    writer = writer.option("checkpointLocation", str(folder))
    is_continuous = spec.trigger.kind is TriggerKind.CONTINUOUS
    start = _by_epochs if is_continuous else _in_real_time
    query, written = start(scene.spark, frame, writer)
    deadline = time.monotonic() + _WAIT_S
    try:
        while True:
            rows = from_arrow(written().toArrow())
            if len(rows) >= count or time.monotonic() > deadline or not query.isActive:
                return rows
            time.sleep(_POLL_S)
    finally:
        query.stop()


_Started = tuple["StreamingQuery", Callable[[], "DataFrame"]]


def _by_epochs(spark: SparkSession, frame: DataFrame, writer: DataStreamWriter) -> _Started:
    # The sink in memory of the other trigger takes no rows behind the end of its first epoch.
    name = f"unbatched_{uuid.uuid4().hex}"
    query = writer.format("memory").queryName(name).start()
    return query, lambda: spark.table(name)


def _in_real_time(spark: SparkSession, frame: DataFrame, writer: DataStreamWriter) -> _Started:
    jvm: Any = spark._jvm
    sinks = jvm.org.apache.spark.sql.execution.streaming.sources
    sink = sinks.ContinuousMemorySink()
    query = start_on(writer, None, sink=sink)
    columns = frame._jdf.queryExecution().analyzed().output()

    def written() -> DataFrame:
        # A plan keeps what it read, so every look takes a new one.
        rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(
            frame._jdf.sparkSession(), sinks.MemoryPlan(sink, columns)
        )
        return _as_frame(rows, spark)

    return query, written


def _as_frame(java: Any, spark: SparkSession) -> DataFrame:
    from pyspark.sql import DataFrame

    return DataFrame(java, spark)
