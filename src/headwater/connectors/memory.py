"""Rows in memory: lists of rows as an input, Spark's memory sink as an output."""

from __future__ import annotations

import getpass
import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.connectors.interface import (
    MICRO_BATCH,
    Connector,
    Idempotence,
    ReadRequest,
    WriteRequest,
    option_texts,
    struct_type,
)
from headwater.definitions import OutputMode, TriggerKind
from headwater.errors import NotReadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

Rows = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Memory(Connector):
    """Lists of rows as an input, a table in the session as an output. See `memory`, `queue`."""

    system: ClassVar[str] = "memory"
    reads_streams: ClassVar[bool] = True
    reads_batches: ClassVar[bool] = True
    writes: ClassVar[bool] = True
    needs_schema: ClassVar[bool] = True
    is_replayable: ClassVar[bool] = True
    write_triggers: ClassVar[frozenset[TriggerKind]] = MICRO_BATCH | {TriggerKind.CONTINUOUS}

    batches: tuple[Rows, ...] | None = field(default=None, hash=False)
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        schema = struct_type(request.schema or "")
        folder = _folder(request)
        wanted = {
            _file_name(number, rows): (number, rows) for number, rows in enumerate(self._batches())
        }
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for stale in {file.name for file in folder.glob("*.parquet")} - wanted.keys():
            (folder / stale).unlink(missing_ok=True)
        for name, (number, rows) in wanted.items():
            if not (folder / name).exists():
                _write_file(_arrow_table(rows, schema), folder / name, number)
        reader = spark.readStream.format("parquet").schema(schema)
        return reader.option("maxFilesPerTrigger", "1").options(**self.options).load(str(folder))

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        rows = [row for batch in self._batches() for row in batch]
        schema = struct_type(request.schema or "")
        return spark.createDataFrame(_tuples(rows, schema.names), schema)

    def _batches(self) -> tuple[Rows, ...]:
        if self.batches is None:
            raise NotReadable(
                "memory",
                "an input",
                found="memory() without rows, which is a sink",
                remedy="say what it holds: memory(rows=[…]) or queue([[…], […]])",
            )
        return self.batches

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return frozenset({OutputMode.APPEND, OutputMode.COMPLETE})

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        return Idempotence(False, "the rows are lost with the session")

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        return frame.writeStream.format("memory").queryName(request.table).options(**self.options)

    def write_batch(self, frame: DataFrame, request: WriteRequest) -> None:
        frame.localCheckpoint().createOrReplaceTempView(request.table)

    def describe(self) -> str:
        if self.batches is None:
            return "memory"
        return f"memory, {sum(map(len, self.batches))} rows in {len(self.batches)} batches"


def _tuples(rows: Iterable[Any], names: Sequence[str]) -> list[tuple[Any, ...]]:
    return [
        tuple(row.get(name) for name in names) if isinstance(row, Mapping) else tuple(row)
        for row in rows
    ]


# A file per batch, read in the order of their times one at a time, gives what Spark's MemoryStream
# does not: one list per batch under every trigger, and the same rows again after a restart.


def _folder(request: ReadRequest) -> Path:
    """Stable for one source of one pipeline, so that a checkpoint finds its files again."""
    source = f"{request.base}\n{request.pipeline}\n{request.name}"
    place = hashlib.sha256(source.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"headwater-memory-{getpass.getuser()}" / place


def _file_name(number: int, rows: Rows) -> str:
    return f"{number:06d}-{hashlib.sha256(repr(rows).encode()).hexdigest()[:16]}.parquet"


def _arrow_table(rows: Rows, schema: StructType) -> Any:
    from pyspark.sql.conversion import LocalDataToArrowConversion

    return LocalDataToArrowConversion.convert(_tuples(rows, schema.names), schema, False)


def _write_file(table: Any, file: Path, number: int) -> None:
    from pyarrow import parquet

    draft = file.with_name(f".{file.name}.{os.getpid()}")
    parquet.write_table(table, draft)
    os.utime(draft, (number + 1, number + 1))
    draft.replace(file)


def memory(
    *, rows: Iterable[Any] | None = None, options: Mapping[str, object] | None = None
) -> Memory:
    """Rows in memory. `memory()` is a sink, `memory(rows=[…])` an input of one batch.

    As a sink it is Spark's memory sink: append and complete, read with `spark.table("<table>")`
    in the same session; it is for shells and tests, and ends with the session. As an input it
    takes tuples in the order of the schema, or mappings by column name (a missing name is NULL).

    >>> memory(rows=[("a", 1), ("b", 2)]).describe()
    'memory, 2 rows in 1 batches'
    """
    batches = None if rows is None else (tuple(rows),)
    return Memory(batches, option_texts(options))


def queue(
    batches: Iterable[Iterable[Any]], *, options: Mapping[str, object] | None = None
) -> Memory:
    """An input whose N-th batch is the N-th list, under every trigger; `batch` reads them all.

    Replayable: after a restart the query continues behind the last list it committed, also in
    another process, and lists added at the end of a definition are new batches. Rows are kept as
    files in the machine's temporary folder, so it serves examples and tests, not volumes.

    >>> queue([[("facebook", "clicked")], [("facebook", "viewed")]]).describe()
    'memory, 2 rows in 2 batches'
    """
    return Memory(tuple(tuple(rows) for rows in batches), option_texts(options))
