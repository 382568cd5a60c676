"""A pipeline that reads a recording and writes to places of its own, in the real systems."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.connectors.delta import Delta
from headwater.connectors.files import Files, ParquetFiles
from headwater.connectors.foreach import FunctionSink
from headwater.connectors.interface import Connector
from headwater.connectors.jdbc import Jdbc
from headwater.connectors.kafka import Kafka
from headwater.connectors.kafka.clients import admin_client
from headwater.connectors.redis import Redis
from headwater.definitions import Definition, Limit, LimitUnit, Source, Table, Trigger
from headwater.graph.resolve import resolve
from headwater.ledger.databases import Database
from headwater.pipeline import Pipeline
from headwater.runtime.late import late_name
from headwater.runtime.specification import connection_of, read_request
from headwater.runtime.storage import Storage
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAST_FILE = "last.parquet"
"""Kept back until no crash comes any more. Spark closes the last windows in a batch without rows; a
driver that dies before it leaves them to the rows that come next."""
_BEFORE_THE_LAST = "[0-9]*.parquet"

_NOT_COMPARED = ("batch", "watermark")
"""Columns of a late table that say when, not what. The watermark may stand still for a batch after
a crash: Spark's file sink leaves out a batch that it has, and nobody sees how new its rows are."""


def redirected(
    pipeline: Pipeline,
    settings: Settings,
    inputs: Mapping[str, str],
    folder: Path,
    tag: str,
    tables: Collection[str],
    *,
    is_whole: bool,
) -> Pipeline:
    """These tables, and those they read, over files of recorded rows, one file per batch. `inputs`
    gives the schema of each source's files, which are in `folder`/input/<source>. Sinks get `tag`
    in their names. The last file is read only where the input `is_whole`."""
    definitions, left_out = pipeline.definitions(), unread(pipeline)
    needed = resolve(definitions).needed_by(tables)
    changed: dict[str, Definition] = {}
    for name, definition in definitions.by_name.items():
        if name not in needed:
            continue
        if isinstance(definition, Source):
            which = {} if is_whole else {"pathGlobFilter": _BEFORE_THE_LAST}
            connector = ParquetFiles(str(folder / "input" / name), which)
            one_file = Limit(1, LimitUnit.FILES)
            changed[name] = replace(
                definition, connector=connector, schema=inputs[name], max_per_batch=one_file
            )
        elif name in left_out:
            continue
        elif isinstance(definition, Table):
            sink = _moved(definition.into, folder / tag, name, tag)
            changed[name] = replace(definition, into=sink, trigger=Trigger.default())
        else:
            changed[name] = definition
    copy = Pipeline(
        crash_name(pipeline.name), settings=replace(settings, storage=str(folder / tag / "storage"))
    )
    copy._definitions = changed
    return copy


def crash_name(pipeline: str) -> str:
    return f"{pipeline}_crash"


def unread(pipeline: Pipeline) -> dict[str, str]:
    """Tables whose content cannot be compared, and why."""
    return {
        table.name: f"what {table.into.describe()} holds cannot be read"
        for table in pipeline.definitions().tables.values()
        if table.into is not None and not _can_be_read(table.into)
    }


def _can_be_read(sink: Connector) -> bool:
    if isinstance(sink, FunctionSink):
        return sink.can_be_verified
    return isinstance(sink, Delta | Files | Jdbc | Kafka | Redis)


def _moved(sink: Connector | None, folder: Path, table: str, tag: str) -> Connector | None:
    if isinstance(sink, Delta):
        return replace(sink, path=str(folder / "tables" / table))
    if isinstance(sink, Files):
        return replace(sink, path=str(folder / "files" / table))
    if isinstance(sink, Jdbc):
        return replace(sink, table=f"{sink.table}_{tag}")
    if isinstance(sink, Redis):
        return replace(sink, prefix=f"{sink.prefix}_{tag}")
    if isinstance(sink, Kafka) and sink.topics:
        return replace(sink, topics=(f"{sink.topics[0]}-{tag}",), creates=True)
    return sink


@dataclass(frozen=True, slots=True)
class Contents:
    """What the tables of a redirected pipeline hold."""

    spark: SparkSession
    pipeline: Pipeline

    def read(self) -> dict[str, Counter[str]]:
        """Rows as text with how often each is there, by table; late tables too."""
        settings = self.pipeline.settings
        storage = Storage(settings.storage_root, self.pipeline.name)
        found = {}
        for table in self.pipeline.definitions().tables.values():
            if table.into is None or _can_be_read(table.into):
                found[table.name] = self._rows(self._frame(table, storage))
            late = storage.table(late_name(table.name))
            if os.path.isdir(f"{late}/_delta_log"):
                frame = self.spark.read.format("delta").load(late)
                found[late_name(table.name)] = self._rows(frame.drop(*_NOT_COMPARED))
        return found

    def _frame(self, table: Table, storage: Storage) -> DataFrame:
        settings, sink = self.pipeline.settings, table.into or Delta()
        connection = connection_of(sink, settings)
        if isinstance(sink, Kafka):
            assert connection is not None
            options = {
                "kafka.bootstrap.servers": connection.require("bootstrap_servers"),
                "subscribe": sink.topics[0],
            }
            raw = self.spark.read.format("kafka").options(**options).load()
            return raw.selectExpr("cast(key as string)", "cast(value as string)")
        request = read_request(table, sink, settings, storage, Trigger.default())
        return sink.read_batch(self.spark, request)

    def _rows(self, frame: DataFrame) -> Counter[str]:
        columns = sorted(frame.columns)
        return Counter(str(_plain(tuple(row))) for row in frame.select(*columns).collect())

    def drop(self) -> None:
        """Removes what the run left in databases and brokers; folders are the caller's."""
        for table in self.pipeline.definitions().tables.values():
            sink = table.into
            if isinstance(sink, Jdbc):
                with contextlib.suppress(Exception), self._database(sink).session() as session:
                    session.execute(f"DROP TABLE IF EXISTS {sink.table}")
            elif isinstance(sink, Kafka):
                connection = connection_of(sink, self.pipeline.settings)
                assert connection is not None
                with contextlib.suppress(Exception):
                    for answer in admin_client(connection).delete_topics([*sink.topics]).values():
                        answer.result(timeout=10)
            elif isinstance(sink, Redis):
                with contextlib.suppress(Exception):
                    sink.forget(connection_of(sink, self.pipeline.settings))
            elif isinstance(sink, FunctionSink) and sink.clear is not None:
                sink.clear()

    def _database(self, sink: Jdbc) -> Database:
        address = sink._address(connection_of(sink, self.pipeline.settings))
        return Database(self.spark, {**address, **sink.options})


def _plain(value: Any) -> Any:
    """Floating-point values to nine digits: sums depend on the order of their rows."""
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value)
