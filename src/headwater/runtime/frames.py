"""From definitions to DataFrames, unbounded or bounded; the user's functions are called here."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from headwater.connectors.interface import (
    ARRIVAL,
    RECORD,
    REJECTED,
    Connector,
    OffsetRange,
    ReadRequest,
)
from headwater.connectors.records import latest_of, too_far_ahead
from headwater.connectors.upserts import keeps_last_of_key, one_row_per_key
from headwater.definitions import (
    Definition,
    Lookup,
    Model,
    OnReject,
    OutputMode,
    PythonBody,
    Source,
    Table,
    Trigger,
    TriggerKind,
    View,
    duration_ms,
    kind_of,
)
from headwater.errors import FunctionFailed, HeadwaterError, Location, NotADataFrame
from headwater.event_time.plans import as_bounded
from headwater.event_time.watermark import moment, steady
from headwater.graph import Graph
from headwater.jvm.telling import Ages, Ear, Lags
from headwater.runtime.lateness import lag
from headwater.runtime.models import ModelStore
from headwater.runtime.specification import read_request
from headwater.runtime.storage import Storage
from headwater.schemas import quoted
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_views_of_session = threading.Lock()


@dataclass(frozen=True, slots=True)
class BuiltTable:
    """A table's DataFrame, and that of each source whose records may be rejected, with them."""

    frame: DataFrame
    judged_sources: Mapping[str, DataFrame]
    sources: Mapping[str, DataFrame]
    """Every source as it is read."""


@dataclass
class Frames:
    """Builds the DataFrames of one graph.

    `modes` gives the output mode of tables that other tables read: an append table is read as a
    stream, any other as a lookup. In a batch, tables are computed, never read from their sinks.
    """

    spark: SparkSession
    graph: Graph
    settings: Settings
    storage: Storage
    sinks: Mapping[str, Connector]
    modes: Mapping[str, OutputMode] = field(default_factory=dict)
    prepared: set[str] = field(default_factory=set)
    """Tables whose sink can be read; others are stood in for by an empty stream of their schema."""
    schemas: dict[str, StructType] = field(default_factory=dict)
    versioned: Callable[[str, Lookup | Model], DataFrame | None] = lambda table, definition: None
    """A lookup or model whose rows may change while a table's query runs."""
    gate: Callable[[str, Source], Gate | None] = lambda table, source: None
    """How a table's query counts what a source rejects; None where nobody listens."""

    def stream(self, table: str, trigger: Trigger) -> BuiltTable:
        """The unbounded DataFrame of a table; each source is read once per query."""
        judged: dict[str, DataFrame] = {}
        sources: dict[str, DataFrame] = {}
        late = self.graph.tables[table].late
        lateness = late.lateness if late else None

        def read(definition: Definition) -> DataFrame:
            if isinstance(definition, Source):
                request = self._request(definition, definition.connector, trigger)
                gate = self._gate(table, definition, request)
                if gate is not None and gate.keeps and definition.connector.record:
                    request = replace(request, carries_records=True)
                stream = definition.connector.read_stream(self.spark, request)
                sources[definition.name] = stream
                if is_judged(definition):
                    stream = _judged(stream, definition, gate.now_ms if gate else None)
                    judged[definition.name] = stream
                    stream = _accepted(stream, definition, gate)
                stream = _watermarked(stream, definition, lateness)
                return definition.connector.below_watermark(stream, request)
            if isinstance(definition, Table):
                return self._table_as_input(definition, trigger)
            assert isinstance(definition, Lookup | Model)
            return self.versioned(table, definition) or self.fixed(definition)

        frame = _Builder(self.spark, self.graph, read).build(table)
        self.schemas[table] = frame.schema
        return BuiltTable(frame, judged, sources)

    def batch(self) -> dict[str, DataFrame]:
        """Every view's and table's DataFrame over the input that is there now."""
        builder = self._bounded()
        return {name: as_bounded(builder.build(name)) for name in self.graph.order}

    def view(self, name: str) -> DataFrame:
        """A view's DataFrame over the input that is there now."""
        return as_bounded(self._bounded().build(name))

    def _bounded(self) -> _Builder:
        def read(definition: Definition) -> DataFrame:
            if isinstance(definition, Source):
                return self._source_batch(definition)
            return self.fixed(definition)

        return _Builder(self.spark, self.graph, read, is_batch=True)

    def consumed(self, table: str, parts: Mapping[str, OffsetRange]) -> DataFrame:
        """A table's bounded DataFrame over parts of its sources."""

        def read(definition: Definition) -> DataFrame:
            if isinstance(definition, Source):
                return self._source_batch(definition, parts.get(definition.name))
            return self.fixed(definition)

        return _Builder(self.spark, self.graph, read, is_batch=True).build(table)

    def rejected_batch(self, source: Source) -> DataFrame:
        """The rejected records of a source, over the input that is there now."""
        request = self._request(source, source.connector, Trigger.default())
        if is_parsed(source):
            return source.connector.read_rejected(self.spark, request, None)
        frame = _judged(source.connector.read_batch(self.spark, request), source)
        return rejected_rows(frame, source)

    def _gate(self, table: str, source: Source, request: ReadRequest) -> Gate | None:
        is_observed = is_judged(source) and request.trigger not in NO_OBSERVATION
        return self.gate(table, source) if is_observed else None

    def _source_batch(self, source: Source, part: OffsetRange | None = None) -> DataFrame:
        request = self._request(source, source.connector, Trigger.default())
        if part is None:
            frame = source.connector.read_batch(self.spark, request)
        else:
            frame = source.connector.read_part(self.spark, request, part)
        if is_judged(source):
            frame = _accepted(_judged(frame, source), source, None).drop(ARRIVAL)
        return _watermarked(frame, source)

    def fixed(self, definition: Definition) -> DataFrame:
        """What a lookup, or the used version of a model, holds now."""
        if isinstance(definition, Model):
            return ModelStore(self.storage, definition, self.spark).now()
        assert isinstance(definition, Lookup)
        return self.lookup(definition)

    def stored(self, table: str) -> DataFrame:
        """The rows that a table's sink holds now."""
        sink = self.sinks[table]
        request = self._request(self.graph.tables[table], sink, Trigger.default())
        if sink.needs_schema:
            request = replace(request, schema=self._ddl(table))
        frame = sink.read_batch(self.spark, request)
        return frame.drop(REJECTED) if REJECTED in frame.columns else frame

    def _ddl(self, table: str) -> str:
        if table not in self.schemas:
            self.schemas[table] = self.batch()[table].schema
        return str(self.spark.createDataFrame([], self.schemas[table])._jdf.schema().toDDL())

    def lookup(self, lookup: Lookup) -> DataFrame:
        """What a lookup holds now."""
        request = self._request(lookup, lookup.connector, Trigger.default())
        frame = lookup.connector.read_batch(self.spark, request)
        if REJECTED not in frame.columns:
            return frame
        return _without_rejected(frame, f"lookup {lookup.name}")

    def _table_as_input(self, table: Table, trigger: Trigger) -> DataFrame:
        if table.name not in self.prepared:
            is_stream = self.modes.get(table.name) is OutputMode.APPEND
            return _stand_in(self.spark, self.schemas[table.name], is_stream=is_stream)
        sink = self.sinks[table.name]
        request = self._request(table, sink, trigger)
        if sink.needs_schema:
            request = replace(request, schema=self._ddl(table.name))
        is_stream = self.modes.get(table.name) is OutputMode.APPEND
        read = sink.read_stream if is_stream else sink.read_batch
        frame = read(self.spark, request)
        if REJECTED not in frame.columns:
            return frame
        return _without_rejected(frame, f"table {table.name}")

    def _request(
        self, definition: Source | Lookup | Table, connector: Connector, trigger: Trigger
    ) -> ReadRequest:
        return read_request(definition, connector, self.settings, self.storage, trigger)


NO_OBSERVATION = (TriggerKind.CONTINUOUS, TriggerKind.REAL_TIME)
"""Triggers under which Spark counts nothing on the way."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Hears of rejected records; with `lags` it is measured how far rows are behind `newest`, the
    newest event time of earlier batches, with `ages` how old they are. `batch` is the number of the
    batch that runs, `now_ms` its time: `current_timestamp` would be written into the code, and that
    compiled anew each time. It `keeps` rejected records where it is the one that reports them."""

    ear: Ear
    batch: Column
    now_ms: Column
    newest: Column | None = None
    lags: Lags | None = None
    ages: Ages | None = None
    keeps: bool = False


def is_judged(source: Source) -> bool:
    """Whether records of a source may be rejected: they are parsed, or their time must be right."""
    return is_parsed(source) or source.watermark is not None


def is_parsed(source: Source) -> bool:
    return source.connector.parses and source.schema is not None


def _judged(frame: DataFrame, source: Source, now_ms: Column | None = None) -> DataFrame:
    """With `REJECTED`: what did not parse, has no event time, or one too far ahead.

    A stream goes by its batch's time, which the offset log keeps; a batch by each record's arrival
    where the connector knows it.
    """
    from pyspark.sql import functions as F

    wrong = [F.col(REJECTED)] if REJECTED in frame.columns else []
    if source.event_time is not None and source.watermark is not None:
        event_time = F.col(quoted(source.event_time))
        if not wrong:
            wrong.append(event_time.isNull())
        latest = _latest(frame, source.max_ahead_ms, now_ms)
        if latest is not None:
            wrong.append(F.coalesce(event_time > latest, F.lit(False)))
    is_wrong = reduce(lambda one, other: one | other, wrong)
    is_data = source.connector.is_data() if frame.isStreaming else None
    return frame.withColumn(REJECTED, is_wrong if is_data is None else is_wrong & is_data)


def _latest(
    frame: DataFrame, max_ahead_ms: int | None, now_ms: Column | None = None
) -> Column | None:
    """The latest event time that a row may have; None where any will do."""
    from pyspark.sql import functions as F

    if max_ahead_ms is None:
        return None
    if now_ms is not None:
        return moment(frame.sparkSession, now_ms + F.lit(max_ahead_ms))
    arrived = _arrived(frame)
    return None if arrived is None else latest_of(arrived, max_ahead_ms)


def _arrived(frame: DataFrame) -> Column | None:
    from pyspark.sql import functions as F

    if frame.isStreaming:
        return F.current_timestamp()
    return F.col(ARRIVAL) if ARRIVAL in frame.columns else None


def rejected_rows(frame: DataFrame, source: Source) -> DataFrame:
    """The rejected ones of `_judged` rows, as they are kept where a source has no records."""
    from pyspark.sql import functions as F

    assert source.event_time is not None
    event_time = F.col(quoted(source.event_time))
    reason = F.when(event_time.isNull(), f"event time {source.event_time}: null")
    latest = _latest(frame, source.max_ahead_ms)
    if latest is not None:
        reason = F.coalesce(reason, too_far_ahead(source.event_time, event_time, latest))
    columns = [name for name in frame.columns if not name.startswith("__")]
    raw = F.to_json(F.struct(*map(quoted, columns))).cast("binary")
    return frame.where(REJECTED).select(reason.alias("reason"), raw.alias("raw"))


def _accepted(frame: DataFrame, source: Source, gate: Gate | None) -> DataFrame:
    """The rows that parsed; the others are heard of on the way, or fail the query."""
    from pyspark.sql import functions as F

    record = [name for name in frame.columns if name.startswith(RECORD)]
    if source.on_reject is OnReject.FAIL:
        accepted = _without_rejected(frame, f"source {source.name}")
    elif gate is None:
        accepted = frame.where(~F.col(REJECTED)).drop(REJECTED)
    else:
        batch = steady(frame.sparkSession, gate.batch)
        if record:
            row = F.struct(*(F.col(name).alias(name.removeprefix(RECORD)) for name in record))
            heard = gate.ear.told(batch, row, F.lit(1))
        else:
            heard = gate.ear.noted(batch)
        passes = F.when(F.col(REJECTED), heard).otherwise(F.lit(True))
        accepted = frame.where(passes).drop(REJECTED)
    accepted = accepted.drop(*record) if record else accepted
    return accepted if gate is None else _measured(accepted, source, gate)


def _measured(frame: DataFrame, source: Source, gate: Gate) -> DataFrame:
    """Rows that are told of on the way: how far behind the newest, and how old they are."""
    from pyspark.sql import functions as F

    if source.event_time is None:
        return frame
    spark, event_time = frame.sparkSession, F.col(quoted(source.event_time))
    is_data, is_known = source.connector.is_data(), event_time.isNotNull()
    if is_data is not None:
        is_known = is_known & is_data
    if gate.ages is not None:
        age = lag(event_time, steady(spark, gate.now_ms))
        frame = frame.where(F.when(is_known, ~gate.ages.drawn(age)).otherwise(F.lit(True)))
    if gate.newest is not None and gate.lags is not None:
        # 0 stands for: not known yet.
        newest_ms = steady(spark, F.coalesce(F.unix_millis(gate.newest), F.lit(0)))
        behind = gate.lags.drawn(lag(event_time, newest_ms))
        is_measured = (newest_ms != 0) & is_known
        frame = frame.where(F.when(is_measured, ~behind).otherwise(F.lit(True)))
    return frame


def _watermarked(frame: DataFrame, source: Source, lateness: str | None = None) -> DataFrame:
    """With Spark's watermark; allowed lateness keeps state for so much longer."""
    if source.event_time is None or source.delay is None:
        return frame
    delay_ms = duration_ms(source.delay) + (duration_ms(lateness) if lateness else 0)
    return frame.withWatermark(source.event_time, f"{delay_ms} milliseconds")


def _without_rejected(frame: DataFrame, what: str) -> DataFrame:
    """The rows as they are; the first record that did not parse fails the query."""
    from pyspark.sql import functions as F

    text = F.lit(f"REJECTED_RECORD: {what} holds a record that does not parse")
    failing = F.when(F.col(REJECTED), F.raise_error(text).cast("boolean")).otherwise(F.lit(True))
    return frame.where(failing).drop(REJECTED)


def _stand_in(spark: SparkSession, schema: StructType, *, is_stream: bool) -> DataFrame:
    """An empty input of a schema: the plan looks at tables that do not exist yet."""
    from pyspark.sql import functions as F

    if not is_stream:
        return spark.createDataFrame([], schema)
    rate = spark.readStream.format("rate").load()
    columns = [F.lit(None).cast(column.dataType).alias(column.name) for column in schema.fields]
    return rate.where(F.lit(False)).select(*columns)


class _Builder:
    """Calls bodies in order; keeps what it has built so that each is built once."""

    def __init__(
        self,
        spark: SparkSession,
        graph: Graph,
        read: Callable[[Definition], DataFrame],
        *,
        is_batch: bool = False,
    ) -> None:
        self._spark = spark
        self._graph = graph
        self._read = read
        self._is_batch = is_batch
        self._built: dict[str, DataFrame] = {}

    def build(self, name: str) -> DataFrame:
        definition = self._graph[name]
        assert isinstance(definition, View | Table)
        if name not in self._built:
            inputs = {e.parameter: self._input(e.read) for e in self._graph.inputs(name)}
            built = _called(self._spark, definition, inputs)
            if self._is_batch and isinstance(definition, Table) and keeps_last_of_key(definition):
                built = one_row_per_key(built, definition.key, definition.order_by)
            self._built[name] = built
        return self._built[name]

    def _input(self, name: str) -> DataFrame:
        definition = self._graph[name]
        if isinstance(definition, View) or (self._is_batch and isinstance(definition, Table)):
            return self.build(name)
        if name not in self._built:
            self._built[name] = self._read(definition)
        return self._built[name]


def _called(
    spark: SparkSession, definition: View | Table, inputs: Mapping[str, DataFrame]
) -> DataFrame:
    kind, name = kind_of(definition), definition.name
    try:
        if isinstance(definition.body, PythonBody):
            result = definition.body.function(**inputs)
        else:
            result = _selected(spark, definition.body.text, inputs)
    except HeadwaterError:
        raise
    except Exception as cause:
        where = users_line(cause, definition.location)
        raise FunctionFailed(kind, name, cause, where=where) from cause
    if not hasattr(result, "isStreaming"):
        found = "nothing" if result is None else f"a {type(result).__name__}"
        raise NotADataFrame(kind, name, found, where=definition.location)
    return result  # type: ignore[no-any-return]


def _selected(spark: SparkSession, text: str, inputs: Mapping[str, DataFrame]) -> DataFrame:
    # Spark analyses at once, so the names are needed only until `sql` returns.
    with _views_of_session:
        for name, frame in inputs.items():
            frame.createOrReplaceTempView(name)
        try:
            return spark.sql(text)
        finally:
            for name in inputs:
                spark.catalog.dropTempView(name)


def users_line(cause: BaseException, fallback: Location) -> Location:
    """The line of the user's file that raised; the definition's own where none did."""
    for entry in reversed(traceback.extract_tb(cause.__traceback__)):
        if entry.filename == fallback.file and entry.lineno:
            return Location(entry.filename, entry.lineno)
    return fallback
