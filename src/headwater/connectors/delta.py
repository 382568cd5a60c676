"""Delta tables: managed ones under the storage root, and those at a path."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.connectors.interface import (
    ALL_MODES,
    Connector,
    Idempotence,
    ReadRequest,
    WriteRequest,
    batch_by_batch,
    limit_option,
    located,
    option_texts,
    run_through,
    struct_type,
)
from headwater.connectors.upserts import is_not_older, one_row_per_key
from headwater.definitions import Limit, LimitUnit, OutputMode
from headwater.errors import DeltaTableMissing, InvalidConnector, KeyNotUnique
from headwater.ledger import compaction, transactions
from headwater.local.jars import JarSet
from headwater.schemas import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, slots=True)
class Delta(Connector):
    """A Delta table; `path` None is the managed table of the same name. See `delta`."""

    system: ClassVar[str] = "delta"
    jars: ClassVar[frozenset[JarSet]] = frozenset({JarSet.DELTA})
    reads_streams: ClassVar[bool] = True
    reads_batches: ClassVar[bool] = True
    writes: ClassVar[bool] = True
    keeps_columns: ClassVar[bool] = True
    is_replayable: ClassVar[bool] = True
    writes_increments: ClassVar[bool] = True
    limit_units: ClassVar[frozenset[LimitUnit]] = frozenset({LimitUnit.FILES, LimitUnit.BYTES})

    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        options = {**limit_option(self, request), **self._spark_options}
        return spark.readStream.format("delta").options(**options).load(self._read_path(request))

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        options = self._spark_options
        return spark.read.format("delta").options(**options).load(self._read_path(request))

    def check_readable(self, request: ReadRequest) -> None:
        path = self._read_path(request)
        if "://" not in path and not os.path.isdir(os.path.join(path, "_delta_log")):
            raise DeltaTableMissing(request.name, path)

    def default_limit(self) -> Limit | None:
        return Limit(1000, LimitUnit.FILES)

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return ALL_MODES if has_key else ALL_MODES - {OutputMode.UPDATE}

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        commit = "merge by key" if mode is OutputMode.UPDATE else "Delta commit"
        return Idempotence(
            has_key or mode is not OutputMode.UPDATE,
            f"every {commit} carries the query's id and the batch",
            "nobody restores an earlier version of the table, removes parts of its _delta_log, or "
            "lets its transaction ids expire (delta.setTransactionRetentionDuration)",
        )

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        path = self._write_path(request)
        if request.mode is OutputMode.UPDATE:
            return batch_by_batch(self, frame, request)
        options = {**self._spark_options, "path": path}
        return frame.writeStream.format("delta").options(**options)

    def write_increment(
        self, frame: DataFrame, request: WriteRequest, *, query: str, batch: int
    ) -> None:
        path, spark = self._write_path(request), frame.sparkSession
        if request.mode is not OutputMode.UPDATE:
            transactions.append(frame, path, application=query, version=batch)
            return
        written = transactions.last_version(spark, path, query)
        if written is not None and written >= batch:
            run_through(frame)
            return
        with transactions.recorded(spark, application=query, version=batch):
            self.merge(frame, request, batch=batch)

    def merge(self, frame: DataFrame, request: WriteRequest, *, batch: int = 0) -> None:
        """Writes rows by their key, whoever wrote before."""
        from pyspark.errors import PySparkException

        spark, path = frame.sparkSession, self._write_path(request)
        condition = " AND ".join(f"old.{name} <=> new.{name}" for name in map(quoted, request.key))
        table = _delta_tables(spark).forPath(spark._jsparkSession, path)
        rows = one_row_per_key(frame, request.key, request.order_by).alias("new")
        merging = getattr(table, "as")("old").merge(rows._jdf, condition)
        matched = merging.whenMatched()
        if request.order_by:
            names = [quoted(name) for name in request.order_by]
            matched = merging.whenMatched(
                is_not_older([f"new.{name}" for name in names], [f"old.{name}" for name in names])
            )
        try:
            matched.updateAll().whenNotMatched().insertAll().execute()
        except PySparkException as failure:
            if KeyNotUnique.code in str(failure):
                raise KeyNotUnique(request.table, request.key, batch) from failure
            raise

    def write_batch(self, frame: DataFrame, request: WriteRequest) -> None:
        options = {"overwriteSchema": "true", **self.options}
        writer = frame.write.format("delta").mode("overwrite").options(**options)
        writer.save(self._write_path(request))

    def prepare(self, spark: SparkSession, schema: str, request: WriteRequest) -> None:
        columns = struct_type(schema)
        for column in columns:
            column.nullable = True
        builder = _delta_tables(spark).createIfNotExists(spark._jsparkSession)
        java_columns = spark._jsparkSession.parseDataType(columns.json())
        builder = builder.location(self._write_path(request)).addColumns(java_columns)
        for name, value in self._properties.items():
            builder = builder.property(name, value)
        builder.execute()

    def tidy(self, spark: SparkSession, request: WriteRequest) -> None:
        path = self._write_path(request)
        if "://" not in path:
            compaction.compact_at(path)

    @property
    def prepares(self) -> bool:  # type: ignore[override]  # of others it is a fact of the class
        """Delta's sink for streams makes a table with the session's properties only."""
        return bool(self._properties)

    def holds_rows(self, spark: SparkSession, request: WriteRequest) -> bool:
        path = self._write_path(request)
        if not _delta_tables(spark).isDeltaTable(spark._jsparkSession, path):
            return False
        return not spark.read.format("delta").load(path).isEmpty()

    def place(self, base: Path, connection: str) -> str | None:
        return None if self.path is None else located(self.path, base)

    def describe(self) -> str:
        return "delta table" if self.path is None else f"delta table at {self.path}"

    @property
    def _properties(self) -> dict[str, str]:
        """Those of the options that a new table keeps."""
        return {name: v for name, v in self.options.items() if name.startswith(_PROPERTY)}

    @property
    def _spark_options(self) -> dict[str, str]:
        return {name: v for name, v in self.options.items() if not name.startswith(_PROPERTY)}

    def _read_path(self, request: ReadRequest) -> str:
        return self._path(request.base, request.managed)

    def _write_path(self, request: WriteRequest) -> str:
        return self._path(request.base, request.managed)

    def _path(self, base: Path, managed: str | None) -> str:
        if self.path is not None:
            return located(self.path, base)
        if managed is None:
            raise InvalidConnector(
                "delta", "an input without a path", remedy='say which table: delta("folder")'
            )
        return managed


_PROPERTY = "delta."


def _delta_tables(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.io.delta.tables.DeltaTable


def delta(path: str | None = None, *, options: Mapping[str, object] | None = None) -> Delta:
    """A Delta table at `path`, or, without one, the managed table of the declared name.

    Writing: append and complete through Delta's own sink, exactly once; update needs the table's
    `key`, merges each batch by it, and keeps the last row of a key by its `order_by`. A batch run
    replaces the content in one commit. Reading: as a stream (a table that is only appended to), as
    a batch and as a lookup; a batch of a stream takes at most 1,000 files. Options that begin with
    `delta.` become properties of a table that is made.

    >>> delta("tables/devices").describe()
    'delta table at tables/devices'
    """
    return Delta(path, option_texts(options))
