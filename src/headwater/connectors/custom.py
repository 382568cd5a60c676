"""The user's own system, on Spark's Python data source API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.connectors.interface import (
    Connector,
    Idempotence,
    ReadRequest,
    WriteRequest,
    option_texts,
)
from headwater.definitions import OutputMode
from headwater.errors import InvalidConnector

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, slots=True)
class Custom(Connector):
    """A data source class of the user's. See `custom`."""

    system: ClassVar[str] = "custom"
    reads_streams: ClassVar[bool] = True
    reads_batches: ClassVar[bool] = True
    writes: ClassVar[bool] = True
    is_replayable: ClassVar[bool] = True

    source: type[DataSource]
    path: str | None = None
    is_idempotent: bool = False
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        reader = spark.readStream.format(self._registered(spark)).options(**self._options())
        return (reader.schema(request.schema) if request.schema else reader).load()

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        reader = spark.read.format(self._registered(spark)).options(**self._options())
        return (reader.schema(request.schema) if request.schema else reader).load()

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return frozenset(OutputMode)

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        if self.is_idempotent:
            return Idempotence(
                True,
                f"{self.source.__name__} is declared to recognise a repeated batch",
                f"{self.source.__name__} really does, by the batch's number",
            )
        return Idempotence(
            False, f"{self.source.__name__} is not declared to recognise a repeated batch"
        )

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        name = self._registered(frame.sparkSession)
        return frame.writeStream.format(name).options(**self._options())

    def write_batch(self, frame: DataFrame, request: WriteRequest) -> None:
        name = self._registered(frame.sparkSession)
        frame.write.format(name).mode("overwrite").options(**self._options()).save()

    def place(self, base: Path, connection: str) -> str | None:
        return None if self.path is None else f"{self.source.name()}:{self.path}"

    def describe(self) -> str:
        return f"custom {self.source.name()}" + (f" {self.path}" if self.path else "")

    def _options(self) -> dict[str, str]:
        return {**({"path": self.path} if self.path else {}), **self.options}

    def _registered(self, spark: SparkSession) -> str:
        spark.dataSource.register(self.source)
        return str(self.source.name())


def custom(
    source: type[Any],
    path: str | None = None,
    *,
    idempotent: bool = False,
    options: Mapping[str, object] | None = None,
) -> Custom:
    """A source or sink that the user wrote: a class on `pyspark.sql.datasource.DataSource`.

    The class has what it can do: `reader` for batches, `streamReader` or `simpleStreamReader` for
    streams, `streamWriter` and `writer` (called with overwrite=True) for results. `path` and
    `options` are the options that its constructor receives. Rows pass through Python. Say
    `idempotent=True` where `commit` recognises a batch number that it has seen.

    >>> from pyspark.sql.datasource import DataSource
    >>> class Weather(DataSource):
    ...     @classmethod
    ...     def name(cls):
    ...         return "weather"
    >>> custom(Weather, options={"city": "Oslo"}).describe()
    'custom weather'
    """
    if not (isinstance(source, type) and callable(getattr(source, "name", None))):
        raise InvalidConnector(
            "custom",
            f"{source!r} is not a data source class",
            expected="a class on pyspark.sql.datasource.DataSource",
        )
    return Custom(source, path, idempotent, option_texts(options))
