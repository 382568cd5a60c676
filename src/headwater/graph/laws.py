"""What must hold for every pipeline before anything is built: one function per law."""

from __future__ import annotations

from headwater import schemas
from headwater.definitions import NO_GUARD, Lookup, Model, Source, Table, duration_ms, kind_of
from headwater.errors import (
    EventTimeMissing,
    InvalidDuration,
    InvalidModel,
    KeyEmpty,
    LimitUnsupported,
    NoTables,
    NotReadable,
    NotWritable,
    SchemaMissing,
    SharedSink,
    StorageNotAtomic,
)
from headwater.graph.resolve import Graph
from headwater.settings import CHECKPOINT_FILES, Settings


def check(graph: Graph, settings: Settings) -> None:
    """Raises the first law that is broken."""
    there_is_a_table(graph)
    for definition in graph.definitions.by_name.values():
        if isinstance(definition, Source):
            a_source_reads_a_stream(definition)
            a_parsed_source_has_a_schema(definition)
            event_time_is_a_column(definition)
            a_limit_can_be_kept(definition)
        if isinstance(definition, Lookup):
            a_lookup_reads_a_batch(definition)
            a_reload_takes_time(definition)
        if isinstance(definition, Model):
            a_model_is_trained_on_a_table_that_keeps_its_rows(definition, graph)
    for table in graph.tables.values():
        a_sink_can_be_written(table)
        a_key_names_columns(table)
    no_two_writers(graph, settings)
    a_checkpoint_is_written_in_one_step(settings)


def there_is_a_table(graph: Graph) -> None:
    if not graph.tables:
        raise NoTables(graph.definitions.pipeline)


def a_source_reads_a_stream(source: Source) -> None:
    if not source.connector.reads_streams:
        raise NotReadable(source.connector.system, "a stream", where=source.location)


def a_lookup_reads_a_batch(lookup: Lookup) -> None:
    if not lookup.connector.reads_batches:
        raise NotReadable(lookup.connector.system, "a lookup", where=lookup.location)


def a_model_is_trained_on_a_table_that_keeps_its_rows(model: Model, graph: Graph) -> None:
    table = graph[model.trained_on]
    if not isinstance(table, Table):
        problem = f"{model.trained_on!r} is a {kind_of(table)}, which keeps no rows"
        remedy = "store them in a table and train on that"
        raise InvalidModel(model.name, problem, remedy, where=model.location)
    if table.into is not None and not table.into.keeps_columns:
        problem = f"table {table.name!r} goes into {table.into.describe()}"
        remedy = "train on a table without into=, or on one in Delta or files"
        raise InvalidModel(model.name, problem, remedy, where=model.location)


def a_parsed_source_has_a_schema(source: Source) -> None:
    if source.connector.needs_schema and source.schema is None:
        raise SchemaMissing(source.name, source.connector.system, where=source.location)


def a_limit_can_be_kept(source: Source) -> None:
    limit, connector = source.max_per_batch, source.connector
    if limit is not None and limit.unit not in connector.limit_units:
        units = [unit.value for unit in connector.limit_units]
        where = source.location
        raise LimitUnsupported(source.name, connector.system, str(limit), units, where=where)


def a_reload_takes_time(lookup: Lookup) -> None:
    if lookup.reload is not None and duration_ms(lookup.reload) <= 0:
        raise InvalidDuration("reload", lookup.reload, where=lookup.location)


def event_time_is_a_column(source: Source) -> None:
    is_guarded = source.max_ahead not in (None, NO_GUARD)
    if source.event_time is None and (source.watermark or is_guarded):
        given = "watermark" if source.watermark else "max_ahead"
        problem = f"{given} needs an event_time"
        raise EventTimeMissing(source.name, problem, where=source.location)
    if source.event_time is None or source.schema is None:
        return
    columns = schemas.columns(source.schema)
    kinds = {column.name: column.type for column in columns}
    if source.event_time not in kinds:
        problem = f"event_time {source.event_time!r} is not among its columns {list(kinds)}"
        raise EventTimeMissing(source.name, problem, where=source.location)
    if kinds[source.event_time] not in ("timestamp", "timestamp_ntz", "timestamp_ltz"):
        problem = f"event_time {source.event_time!r} is a {kinds[source.event_time]}"
        raise EventTimeMissing(source.name, problem, where=source.location)


def a_sink_can_be_written(table: Table) -> None:
    if table.into is not None and not table.into.writes:
        raise NotWritable(table.into.system, where=table.location)


def a_key_names_columns(table: Table) -> None:
    if any(not column.strip() for column in table.key):
        raise KeyEmpty(table.name, where=table.location)


def no_two_writers(graph: Graph, settings: Settings) -> None:
    """Two queries into one place would overwrite or double each other's rows."""
    writers: dict[str, str] = {}
    for table in graph.tables.values():
        if table.into is None:
            continue
        name = table.into.connection or table.into.system
        place = table.into.place(settings.folder, name)
        if place is None:
            continue
        for other in writers:
            if place == other or place.startswith(f"{other}/") or other.startswith(f"{place}/"):
                raise SharedSink(writers[other], table.name, place, where=table.location)
        writers[place] = table.name


def a_checkpoint_is_written_in_one_step(settings: Settings) -> None:
    """Spark writes a file beside its place and renames it. Where that is a copy and a removal, a
    crash comes in between, unless the files are written in another way."""
    if not settings.renames_at_once and CHECKPOINT_FILES not in settings.spark:
        raise StorageNotAtomic(settings.storage, settings.profile, CHECKPOINT_FILES)
