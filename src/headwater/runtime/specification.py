"""What one query will do, once every open choice has been made."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.connectors.delta import Delta
from headwater.connectors.interface import Connector, ReadRequest, WriteRequest
from headwater.definitions import (
    Guarantee,
    Late,
    Lookup,
    OnDataLoss,
    OutputMode,
    Source,
    Table,
    Trigger,
    TriggerKind,
)
from headwater.runtime.storage import Storage
from headwater.settings import Connection, Settings


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A table with its sink, mode, trigger and guarantee decided."""

    table: Table
    sink: Connector
    mode: OutputMode
    trigger: Trigger
    guarantee: Guarantee
    is_async_progress: bool = False
    late: Late | None = None
    """What becomes of late rows; None where no row can be late."""
    shape: str | None = None
    """What of the query its checkpoint depends on, as a text to be left there."""
    python: tuple[str, ...] = ()
    """Python functions that its rows pass through."""

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def is_managed(self) -> bool:
        return is_managed(self.table)

    @property
    def can_drain(self) -> bool:
        """Whether it can go on with what is there, to end by itself. Asynchronous progress leaves
        holes in the log that only a query of its own kind goes on from, and Spark's memory sink
        takes no second start."""
        is_batched = self.trigger.kind not in (TriggerKind.CONTINUOUS, TriggerKind.REAL_TIME)
        return is_batched and not self.is_async_progress and self.sink.system != "memory"

    def with_trigger(self, trigger: Trigger) -> QuerySpec:
        # Spark refuses asynchronous progress tracking under triggers that end by themselves.
        is_async = self.is_async_progress and not trigger.is_bounded
        return replace(self, trigger=trigger, is_async_progress=is_async)


def connection_of(connector: Connector, settings: Settings) -> Connection | None:
    if not connector.needs_connection:
        return None
    return settings.connection(connector.connection or connector.system)


def is_managed(table: Table) -> bool:
    """Whether its rows are in the storage: a sink without a name, or Delta without a path."""
    sink = table.into
    return sink is None or (isinstance(sink, Delta) and sink.path is None)


def read_request(
    definition: Source | Lookup | Table,
    connector: Connector,
    settings: Settings,
    storage: Storage,
    trigger: Trigger,
) -> ReadRequest:
    source = definition if isinstance(definition, Source) else None
    limit = source.max_per_batch if source else None
    return ReadRequest(
        name=definition.name,
        schema=None if isinstance(definition, Table) else definition.schema,
        connection=connection_of(connector, settings),
        base=settings.folder,
        pipeline=storage.pipeline,
        managed=storage.table(definition.name),
        max_per_batch=limit or connector.default_limit(),
        event_time=source.event_time if source else None,
        max_ahead_ms=source.max_ahead_ms if source else None,
        trigger=trigger.kind,
        skips_lost=source is not None and source.on_data_loss is OnDataLoss.SKIP,
    )


def write_request(spec: QuerySpec, settings: Settings, storage: Storage) -> WriteRequest:
    return WriteRequest(
        table=spec.name,
        mode=spec.mode,
        key=spec.table.key,
        connection=connection_of(spec.sink, settings),
        base=settings.folder,
        managed=storage.table(spec.name),
        trigger=spec.trigger.kind,
        is_async_progress=spec.is_async_progress,
        order_by=spec.table.order_by,
        is_exactly_once=spec.guarantee is Guarantee.EXACTLY_ONCE,
    )
