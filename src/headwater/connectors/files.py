"""Files in a folder: text, CSV, JSON, Parquet and ORC."""

from __future__ import annotations

import glob
import os
import shutil
import urllib.parse
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headwater.connectors.interface import (
    Connector,
    Idempotence,
    OffsetRange,
    ReadRequest,
    WriteRequest,
    limit_option,
    located,
    option_texts,
    struct_type,
)
from headwater.connectors.manifest import folder_at, last_batch, remove_orphans
from headwater.connectors.records import CORRUPT, RecordFormat, RecordParser, latest_in
from headwater.definitions import Limit, LimitUnit, OutputMode
from headwater.errors import InvalidSchema, PathMissing, SchemaMissing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SURPLUS = "__surplus"


@dataclass(frozen=True, slots=True)
class Files(Connector):
    """Files of one format. `system` is also Spark's name of the format."""

    reads_streams: ClassVar[bool] = True
    reads_batches: ClassVar[bool] = True
    writes: ClassVar[bool] = True
    is_replayable: ClassVar[bool] = True
    limit_units: ClassVar[frozenset[LimitUnit]] = frozenset({LimitUnit.FILES, LimitUnit.BYTES})

    path: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        if request.schema is None and self.needs_schema:
            raise SchemaMissing(request.name, self.system)
        reader = spark.readStream.format(self.system).options(
            **{**limit_option(self, request), **self._read_options(request)}
        )
        if request.schema is not None:
            reader = reader.schema(self._read_schema(request.schema))
        return self._shaped(reader.load(_watched(located(self.path, request.base))), request)

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        reader = spark.read.format(self.system).options(**self._read_options(request))
        if request.schema is not None:
            reader = reader.schema(self._read_schema(request.schema))
        return self._shaped(reader.load(located(self.path, request.base)), request)

    def read_part(self, spark: SparkSession, request: ReadRequest, part: OffsetRange) -> DataFrame:
        reader = spark.read.format(self.system).options(**self._read_options(request))
        if request.schema is not None:
            reader = reader.schema(self._read_schema(request.schema))
        return self._shaped(reader.load(_files_of(spark, part)), request)

    def _read_options(self, request: ReadRequest) -> dict[str, str]:
        return dict(self.options)

    def _read_schema(self, schema: str) -> str:
        return schema

    def _shaped(self, frame: DataFrame, request: ReadRequest) -> DataFrame:
        return frame

    def check_readable(self, request: ReadRequest) -> None:
        path = located(self.path, request.base)
        if "://" in path or os.path.exists(path) or glob.glob(path):
            return
        parent = Path(path).parent
        siblings = [entry.name for entry in parent.iterdir()] if parent.is_dir() else []
        raise PathMissing(request.name, path, siblings)

    def default_limit(self) -> Limit | None:
        return Limit(1000, LimitUnit.FILES)

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return frozenset({OutputMode.APPEND})

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        return Idempotence(
            True,
            "the folder's manifest names the files of every batch once",
            "readers take the files that the manifest _spark_metadata names, as Spark, `headwater "
            "show` and `headwater files` do, and nobody removes it",
        )

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        writer = frame.writeStream.format(self.system).options(**self._write_options())
        return writer.option("path", located(self.path, request.base))

    def tidy(self, spark: SparkSession, request: WriteRequest) -> None:
        remove_orphans(folder_at(spark, located(self.path, request.base)))

    def position(self, spark: SparkSession, request: WriteRequest, query: str) -> str | None:
        return f"batch {last_batch(folder_at(spark, located(self.path, request.base)))}"

    def write_batch(self, frame: DataFrame, request: WriteRequest) -> None:
        """A local folder is swapped for a finished one; elsewhere Spark overwrites it, and a
        failure in the midst leaves a part."""
        path = located(self.path, request.base)
        writer = frame.write.format(self.system).options(**self._write_options())
        if not is_local(frame.sparkSession, path):
            writer.mode("overwrite").save(path)
            return
        target = Path(local_path(path))
        draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            writer.save(str(draft))
            _swap(draft, target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _write_options(self) -> dict[str, str]:
        return dict(self.options)

    def prepare(self, spark: SparkSession, schema: str, request: WriteRequest) -> None:
        path = located(self.path, request.base)
        if is_local(spark, path):
            Path(local_path(path)).mkdir(parents=True, exist_ok=True)

    def place(self, base: Path, connection: str) -> str | None:
        return located(self.path, base)

    def describe(self) -> str:
        return f"{self.system} files in {self.path}"


@dataclass(frozen=True, slots=True)
class ParquetFiles(Files):
    system: ClassVar[str] = "parquet"
    needs_schema: ClassVar[bool] = True
    keeps_columns: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class OrcFiles(Files):
    system: ClassVar[str] = "orc"
    needs_schema: ClassVar[bool] = True
    keeps_columns: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class TextFiles(Files):
    system: ClassVar[str] = "text"

    def _read_schema(self, schema: str) -> str:
        from pyspark.sql.types import StringType

        columns = struct_type(schema)
        if len(columns) != 1 or columns[0].dataType != StringType():
            raise InvalidSchema("text", schema, "a line of text is one string column")
        return "value string"

    def _shaped(self, frame: DataFrame, request: ReadRequest) -> DataFrame:
        if request.schema is None:
            return frame
        return frame.withColumnRenamed("value", struct_type(request.schema)[0].name)


@dataclass(frozen=True, slots=True)
class ParsedFiles(Files):
    """Files of text records, which may be rejected."""

    needs_schema: ClassVar[bool] = True
    keeps_columns: ClassVar[bool] = True
    parses: ClassVar[bool] = True
    format: ClassVar[RecordFormat]

    def parser(self, request: ReadRequest) -> RecordParser:
        if request.schema is None:
            raise SchemaMissing(request.name, self.system)
        return RecordParser(self.format, request.schema, request.event_time, self._text_options())

    def _text_options(self) -> dict[str, str]:
        return dict(self.options)

    def _read_options(self, request: ReadRequest) -> dict[str, str]:
        if request.schema is None:
            return {"inferSchema": "true", **self._text_options()}
        return self.parser(request).parser_options()

    def _read_schema(self, schema: str) -> str:
        ddl: str = RecordParser(self.format, schema).columns_with_corrupt().toDDL()
        return ddl

    def _shaped(self, frame: DataFrame, request: ReadRequest) -> DataFrame:
        return frame if request.schema is None else self.parser(request).verdict(frame)

    def read_rejected(
        self, spark: SparkSession, request: ReadRequest, part: OffsetRange | None
    ) -> DataFrame:
        from pyspark.sql import functions as F

        path = located(self.path, request.base)
        paths = [path] if part is None else _files_of(spark, part)
        parser = self.parser(request)
        records = self._raw_records(spark, paths, parser)
        # A file's time is no arrival: copies and archives set it at will.
        latest = latest_in(request, part, arrival=None)
        rejected = parser.rejected(records, F.col("raw"), latest)
        return rejected.select("reason", F.col("raw").cast("binary"), "file")

    def _raw_records(
        self, spark: SparkSession, paths: list[str], parser: RecordParser
    ) -> DataFrame:
        """Every record as `raw string, file string`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class JsonFiles(ParsedFiles):
    system: ClassVar[str] = "json"
    format: ClassVar[RecordFormat] = RecordFormat.JSON

    def _raw_records(
        self, spark: SparkSession, paths: list[str], parser: RecordParser
    ) -> DataFrame:
        from pyspark.sql import functions as F

        file = F.col("_metadata.file_path").alias("file")
        if self.options.get("multiLine", "false") == "true":
            reader = spark.read.format("json").options(**parser.parser_options())
            columns = parser.columns()
            frame = reader.schema(parser.columns_with_corrupt()).load(paths)
            rebuilt = F.to_json(F.struct(*columns.names))
            return frame.select(F.coalesce(CORRUPT, rebuilt).alias("raw"), file)
        options = {name: self.options[name] for name in ("lineSep",) if name in self.options}
        reader = spark.read.format("text").options(**options, ignoreMissingFiles="true")
        lines = reader.load(paths).select(F.col("value").alias("raw"), file)
        return lines.where("trim(raw) <> ''")


@dataclass(frozen=True, slots=True)
class CsvFiles(ParsedFiles):
    system: ClassVar[str] = "csv"
    format: ClassVar[RecordFormat] = RecordFormat.CSV

    def _text_options(self) -> dict[str, str]:
        # Without the check of names Spark fills columns by position, silently wrong.
        return {"header": "true", "enforceSchema": "false", **self.options}

    def _write_options(self) -> dict[str, str]:
        return {"header": "true", **self.options}

    def _raw_records(
        self, spark: SparkSession, paths: list[str], parser: RecordParser
    ) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        # A record shorter than the schema counts as corrupt, and only then does Spark keep its
        # text: one column too many in the schema yields the text of every record.
        names = [*parser.columns().names, _SURPLUS]
        texts = StructType([StructField(name, StringType()) for name in [*names, CORRUPT]])
        options = {**parser.parser_options(), "enforceSchema": "true", "ignoreMissingFiles": "true"}
        frame = spark.read.format("csv").options(**options).schema(texts).load(paths)
        rebuilt = F.to_csv(F.struct(*names))
        file = F.col("_metadata.file_path").alias("file")
        return frame.select(F.coalesce(CORRUPT, rebuilt).alias("raw"), file)


def _files_of(spark: SparkSession, part: OffsetRange) -> list[str]:
    """The files that the source's log gives to the batches of `part`."""
    import json

    first = -1 if part.start is None else int(json.loads(part.start)["logOffset"])
    last = int(json.loads(part.end)["logOffset"])
    log = spark.read.text(part.log).where("startswith(value, '{')")
    entries = [json.loads(line.value) for line in log.collect()]
    files = {entry["path"] for entry in entries if first < entry["batchId"] <= last}
    return [urllib.parse.unquote(file) for file in sorted(files)]


def _watched(path: str) -> str:
    """`path` as a stream can read it: Spark takes a folder or a pattern, but not one file."""
    return f"{path[:-1]}[{path[-1]}]" if os.path.isfile(path) else path


def is_local(spark: SparkSession, path: str) -> bool:
    """Whether Spark finds `path` on this machine's own disk."""
    if "://" in path or path.startswith("file:"):
        return path.startswith("file:")
    configuration = spark._jsc.hadoopConfiguration()
    return str(configuration.get("fs.defaultFS", "file:///")).startswith("file:")


def local_path(path: str) -> str:
    return urllib.parse.urlparse(path).path if path.startswith("file:") else path


def _swap(draft: Path, target: Path) -> None:
    """Put `draft` in the place of `target`; should that fail, `target` is as it was."""
    if not target.exists():
        draft.rename(target)
        return
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    target.rename(aside)
    try:
        draft.rename(target)
    except OSError:
        aside.rename(target)
        raise
    shutil.rmtree(aside) if aside.is_dir() else aside.unlink()


def text(path: str, *, options: Mapping[str, object] | None = None) -> TextFiles:
    """Lines of text files: one column `value string`, or the one that the schema names.

    >>> text("logs").describe()
    'text files in logs'
    """
    return TextFiles(path, option_texts(options))


def csv(path: str, *, header: bool = True, options: Mapping[str, object] | None = None) -> CsvFiles:
    """CSV files, with a header line unless `header=False`.

    The header must name the schema's columns in their order (`enforceSchema` is false); a record
    that does not parse is rejected. A lookup may leave the schema out: Spark then infers it.

    >>> csv("sites.csv", options={"sep": ";"}).describe()
    'csv files in sites.csv'
    """
    return CsvFiles(path, {"header": str(header).lower(), **option_texts(options)})


def json(path: str, *, options: Mapping[str, object] | None = None) -> JsonFiles:
    """JSON files, one object per line (or `options={"multiLine": True}`); a record that does not
    parse is rejected.

    >>> json("devices").describe()
    'json files in devices'
    """
    return JsonFiles(path, option_texts(options))


def parquet(path: str, *, options: Mapping[str, object] | None = None) -> ParquetFiles:
    """Parquet files.

    >>> parquet("devices").describe()
    'parquet files in devices'
    """
    return ParquetFiles(path, option_texts(options))


def orc(path: str, *, options: Mapping[str, object] | None = None) -> OrcFiles:
    """ORC files.

    >>> orc("devices").describe()
    'orc files in devices'
    """
    return OrcFiles(path, option_texts(options))
