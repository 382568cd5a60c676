"""Databases behind JDBC: PostgreSQL, and any other with a driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from headwater.connectors.interface import (
    Connector,
    ReadRequest,
    WriteRequest,
    option_texts,
    struct_type,
)
from headwater.errors import InvalidConnector, NotReadable, NotWritable
from headwater.local.jars import JarSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_DRIVER = "org.postgresql.Driver"


@dataclass(frozen=True, slots=True)
class Jdbc(Connector):
    """A table of a database. See `jdbc`."""

    system: ClassVar[str] = "jdbc"
    needs_connection: ClassVar[bool] = True
    reads_batches: ClassVar[bool] = True

    table: str
    driver: str | None = None
    connection: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        raise NotReadable(
            self.system,
            "stream",
            found="a table that changes in place has no order in which to read it",
            remedy="declare it with lookup(…) instead of source(…)",
        )

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        options = {**self._address(request), "dbtable": self.table, **self.options}
        # Spark takes a query or a table, never both.
        if "query" in self.options:
            del options["dbtable"]
        frame = spark.read.format("jdbc").options(**options).load()
        return frame if request.schema is None else frame.to(struct_type(request.schema))

    def _address(self, request: ReadRequest) -> dict[str, str]:
        connection = request.connection
        if connection is None:
            raise InvalidConnector(self.system, "no connection was given")
        named = {name: connection.require(name) for name in connection.options}
        connection.require("url")
        return {**({"driver": self.driver} if self.driver else {}), **named}

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        raise NotWritable(self.system, remedy=_WRITE_REMEDY)

    def describe(self) -> str:
        return f"{self.system} table {self.table}"


@dataclass(frozen=True, slots=True)
class Postgres(Jdbc):
    """A table of a PostgreSQL database. See `postgres`."""

    system: ClassVar[str] = "postgres"
    jars: ClassVar[frozenset[JarSet]] = frozenset({JarSet.POSTGRES})


_WRITE_REMEDY = "write each batch with foreach_batch(function), where the function uses frame.write"


def postgres(
    table: str, *, connection: str | None = None, options: Mapping[str, object] | None = None
) -> Postgres:
    """A table of a PostgreSQL database as a lookup or a batch input.

    The connection gives `url`, `user` and `password`. With a schema the columns are brought to
    its types, and one that the table lacks is an error; without one the database's are used.

    >>> postgres("public.devices").describe()
    'postgres table public.devices'
    """
    return Postgres(table, _DRIVER, connection, option_texts(options))


def jdbc(
    table: str,
    *,
    connection: str,
    driver: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Jdbc:
    """A table of any database with a JDBC driver, as a lookup or a batch input.

    The connection gives `url` and whatever else the driver takes; the driver's jar is named in
    the setting `spark.jars`. `options` are Spark's, such as `partitionColumn` or `query`.

    >>> jdbc("devices", connection="warehouse", driver="org.h2.Driver").describe()
    'jdbc table devices'
    """
    return Jdbc(table, driver, connection, option_texts(options))
