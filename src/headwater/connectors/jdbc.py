"""Databases behind JDBC: PostgreSQL, MariaDB, and any other with a driver.

Writing: executors load a batch into a staging table, each task in a transaction of its own (COPY in
PostgreSQL, inserts elsewhere); then one transaction in the driver moves the rows of the attempts
that count into the table and advances the ledger (`headwater.ledger.databases`).
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headwater.connectors.dialects import STAGED_ATTEMPT, Dialect, dialect_of
from headwater.connectors.interface import (
    ALL_MODES,
    Connector,
    Idempotence,
    ReadRequest,
    WriteRequest,
    batch_by_batch,
    option_texts,
    run_through,
    struct_type,
)
from headwater.connectors.upserts import one_row_per_key
from headwater.connectors.waits import waits_s
from headwater.definitions import OutputMode
from headwater.errors import (
    DatabaseRefused,
    DatabaseUnreachable,
    InvalidConnector,
    KeyNotUnique,
    NotReadable,
    RowsRefused,
    SinkDoesNotFit,
)
from headwater.jvm.telling import Attempts
from headwater.ledger.databases import (
    LEDGER,
    Column,
    Database,
    DatabaseLedger,
    Session,
    SqlFailed,
    refusal,
    split_name,
)
from headwater.local.jars import JarSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from headwater.settings import Connection

_DRIVER = "org.postgresql.Driver"
_MARIA_DRIVER = "org.mariadb.jdbc.Driver"
_GONE = re.compile(r"^(08|57P0|53300)")
_GONE_WORDS = re.compile(
    r"connection (refused|has been closed|reset|to \S+ refused)|terminating connection"
    r"|I/O error|the database system is (starting up|shutting down)|broken pipe"
    r"|database connection failed",
    re.I,
)
_LOGIN = re.compile(r"^(28|3D)")
_VALUES = re.compile(r"^2[23]")


@dataclass(frozen=True, slots=True)
class Jdbc(Connector):
    """A table of a database. See `jdbc`."""

    system: ClassVar[str] = "jdbc"
    needs_connection: ClassVar[bool] = True
    reads_batches: ClassVar[bool] = True
    writes: ClassVar[bool] = True
    writes_increments: ClassVar[bool] = True
    keeps_columns: ClassVar[bool] = True
    prepares: ClassVar[bool] = True

    table: str
    driver: str | None = None
    connection: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    # Reading

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        raise NotReadable(
            self.system,
            "stream",
            found="a table that changes in place has no order in which to read it",
            remedy="declare it with lookup(…) instead of source(…)",
        )

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        options = {**self._address(request.connection), "dbtable": self.table, **self.options}
        # Spark takes a query or a table, never both.
        if "query" in self.options:
            del options["dbtable"]
        frame = spark.read.format("jdbc").options(**options).load()
        return frame if request.schema is None else frame.to(struct_type(request.schema))

    # Writing

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return ALL_MODES if has_key and self._can_upsert else ALL_MODES - {OutputMode.UPDATE}

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        return Idempotence(
            True,
            "a batch and its number reach the database in one transaction",
            "nobody changes headwater_ledger beside the table, both are tables with transactions "
            "(MariaDB: InnoDB), and the database keeps what it committed",
        )

    def prepare(self, spark: SparkSession, schema: str, request: WriteRequest) -> None:
        """Makes the table where there is none; one that does not fit is an error."""
        writer = self._writer(spark, request)
        try:
            writer.prepare(struct_type(schema))
        except SqlFailed as failure:
            raise self._explained(failure, request) from failure

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        return batch_by_batch(self, frame, request)

    def write_increment(
        self, frame: DataFrame, request: WriteRequest, *, query: str, batch: int
    ) -> None:
        writer = self._writer(frame.sparkSession, request)
        for wait_s in waits_s():
            try:
                writer.write(frame, query, batch)
                return
            except Exception as failure:
                # Spark hands on what a task failed with in classes of its own.
                if KeyNotUnique.code in str(failure):
                    raise KeyNotUnique(request.table, request.key, batch) from failure
                if wait_s is None or not _is_gone(failure):
                    raise self._explained(failure, request) from failure
                # The database is away: the waits are few and bounded, and nobody tells its return.
                time.sleep(wait_s)

    def position(self, spark: SparkSession, request: WriteRequest, query: str) -> str | None:
        writer = self._writer(spark, request)
        try:
            return f"batch {writer.last(query)}"
        except SqlFailed as failure:
            raise self._explained(failure, request) from failure

    def write_batch(self, frame: DataFrame, request: WriteRequest) -> None:
        writer = self._writer(frame.sparkSession, request)
        try:
            writer.prepare(frame.schema)
            writer.replace(frame)
        except Exception as failure:
            # Tasks fail in classes of Spark's own; what is no database's comes out as it is.
            raise self._explained(failure, request) from failure

    def place(self, base: Path, connection: str) -> str | None:
        return f"{connection}: {self.table}"

    def describe(self) -> str:
        return f"{self.system} table {self.table}"

    # Inside

    @property
    def _can_upsert(self) -> bool:
        """What is known before the address is."""
        return self.driver in (_DRIVER, _MARIA_DRIVER)

    def _address(self, connection: Connection | None) -> dict[str, str]:
        if connection is None:
            raise InvalidConnector(self.system, "no connection was given")
        named = {name: connection.require(name) for name in connection.options}
        needed = dialect_of(connection.require("url")).session
        return {**needed, **({"driver": self.driver} if self.driver else {}), **named}

    def _writer(self, spark: SparkSession, request: WriteRequest) -> _Writer:
        address = self._address(request.connection)
        database = Database(spark, {**address, **self.options})
        return _Writer(database, dialect_of(address["url"]), self.table, request)

    def _explained(self, failure: Exception, request: WriteRequest) -> Exception:
        refused, connection = refusal(failure), request.connection
        if connection is None or refused is None:
            return failure
        if _LOGIN.match(refused.state):
            return DatabaseRefused(request.table, connection.name, str(refused), connection.origin)
        if _GONE.match(refused.state):
            return DatabaseUnreachable(
                request.table, connection.name, str(refused), connection.origin
            )
        if _VALUES.match(refused.state):
            return RowsRefused(request.table, self.table, str(refused))
        return failure


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes batches of one table."""

    database: Database
    dialect: Dialect
    table: str
    request: WriteRequest

    def prepare(self, schema: StructType) -> None:
        with self.database.session() as session:
            found = session.columns(self.table)
            if found is None:
                session.execute(self._create(schema))
                return
            self._check(session, found, schema)

    def write(self, frame: DataFrame, query: str, batch: int) -> None:
        ledger = self._ledger(query)
        with self.database.session() as session:
            ledger.create(session)
            if ledger.last(session) >= batch:
                run_through(frame)
                return
            self._drop_leftovers(session, query)
            staging = self._staging(query)
            attempts = self._stage(session, self._rows(frame), staging)
            with session.transaction():
                if ledger.advance(session, batch):
                    self._merge(session, frame.columns, staging, attempts)
            self._drop(session, staging)

    def last(self, query: str) -> int:
        """The last batch of a query in the ledger; -1 where it has none."""
        ledger = self._ledger(query)
        with self.database.session() as session:
            ledger.create(session)
            return ledger.last(session)

    def replace(self, frame: DataFrame) -> None:
        """The content of a batch run instead of what is there, at once."""
        with self.database.session() as session:
            staging = self._staging(uuid.uuid4().hex)
            attempts = self._stage(session, frame, staging)
            with session.transaction():
                session.execute(f"DELETE FROM {self._target}")
                self._insert(session, frame.columns, staging, attempts)
            self._drop(session, staging)

    def _ledger(self, query: str) -> DatabaseLedger:
        return DatabaseLedger(self.dialect.beside(self.table, LEDGER), query)

    def _rows(self, frame: DataFrame) -> DataFrame:
        if self.request.mode is not OutputMode.UPDATE:
            return frame
        return one_row_per_key(frame, self.request.key, self.request.order_by)

    def _stage(self, session: Session, frame: DataFrame, staging: str) -> list[str]:
        """Loads the rows beside the table; the attempts whose rows count."""
        for statement in self.dialect.create_staging(staging, self._target, frame.columns):
            session.execute(statement)
        # Spark's writer would do this later, and merge tasks behind the labels of their attempts.
        if tasks := self.database.most_tasks():
            frame = frame.coalesce(tasks)
        with Attempts.of_a_job(frame.sparkSession, STAGED_ATTEMPT) as attempts:
            rows = attempts.labelled(_plain(frame))
            self.dialect.load(rows, self.database, staging)
            return attempts.successful()

    def _merge(
        self, session: Session, columns: list[str], staging: str, attempts: list[str]
    ) -> None:
        if self.request.mode is OutputMode.COMPLETE:
            session.execute(f"DELETE FROM {self._target}")
        if self.request.mode is OutputMode.UPDATE and attempts:
            rows = self._staged(columns, staging, attempts)
            key, order_by = self.request.key, self.request.order_by
            session.execute(
                self.dialect.upsert(self._target, columns, key, order_by, rows), *attempts
            )
        else:
            self._insert(session, columns, staging, attempts)

    def _insert(
        self, session: Session, columns: list[str], staging: str, attempts: list[str]
    ) -> None:
        if attempts:
            rows = self._staged(columns, staging, attempts)
            session.execute(self.dialect.insert(self._target, columns, rows), *attempts)

    def _staged(self, columns: list[str], staging: str, attempts: list[str]) -> str:
        listed = ", ".join(map(self.dialect.column, columns))
        places = ", ".join("?" for _ in attempts)
        attempt = self.dialect.column(STAGED_ATTEMPT)
        return f"SELECT {listed} FROM {staging} WHERE {attempt} IN ({places})"

    def _drop(self, session: Session, staging: str) -> None:
        session.execute(f"DROP TABLE IF EXISTS {staging}")

    def _drop_leftovers(self, session: Session, query: str) -> None:
        """What a crashed attempt staged. A second driver on the same checkpoint loses its staging
        table by this, and fails in its merge: better than a merge that finds nothing."""
        for name in session.tables(self.table, self._staging_prefix(query)):
            self._drop(session, self.dialect.beside(self.table, name))

    def _staging(self, query: str) -> str:
        name = f"{self._staging_prefix(query)}{uuid.uuid4().hex[:12]}"
        return self.dialect.beside(self.table, name)

    def _staging_prefix(self, query: str) -> str:
        return f"headwater_{split_name(self.table)[1][:20]}_{query.replace('-', '')[:12]}_"

    @property
    def _target(self) -> str:
        return self.dialect.name(self.table)

    def _create(self, schema: StructType) -> str:
        key = {name.lower() for name in self.request.key}
        columns = [
            f"{self.dialect.column(column.name)} "
            + self.dialect.type_of(column.dataType, is_key=column.name.lower() in key)
            for column in schema
        ]
        if key:
            names = [column.name for column in schema if column.name.lower() in key]
            columns.append(f"PRIMARY KEY ({', '.join(map(self.dialect.column, names))})")
        return f"CREATE TABLE {self._target} ({', '.join(columns)})"

    def _check(self, session: Session, columns: Sequence[Column], schema: StructType) -> None:
        """Raises SinkDoesNotFit."""
        found = {column.name: column for column in columns}
        missing = [given.name for given in schema if given.name not in found]
        unfilled = [column.name for column in columns if column.is_required]
        unfilled = [name for name in unfilled if name not in schema.fieldNames()]
        if missing or unfilled:
            raise SinkDoesNotFit(self.request.table, self.table, missing=missing, unfilled=unfilled)
        mistyped = [
            (given.name, found[given.name].kind, given.dataType.simpleString())
            for given in schema
            if not self.dialect.can_hold(found[given.name].kind, given.dataType)
        ]
        if mistyped:
            raise SinkDoesNotFit(self.request.table, self.table, mistyped=mistyped)
        if self.request.mode is OutputMode.UPDATE:
            key = frozenset(self.request.key)
            if key not in session.unique_keys(self.table):
                raise SinkDoesNotFit(self.request.table, self.table, key=tuple(self.request.key))


def _plain(frame: DataFrame) -> DataFrame:
    """Structures as JSON: a database has no other form for them that is the same everywhere."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    from headwater.schemas import quoted

    kinds = (StructType, ArrayType, MapType)
    if not any(isinstance(column.dataType, kinds) for column in frame.schema):
        return frame
    columns = [
        F.to_json(F.col(quoted(column.name))).alias(column.name)
        if isinstance(column.dataType, kinds)
        else F.col(quoted(column.name))
        for column in frame.schema
    ]
    return frame.select(*columns)


def _is_gone(failure: Exception) -> bool:
    """Whether the database was not there, so that it is worth asking again."""
    refused = refusal(failure)
    if refused is not None and refused.state:
        return bool(_GONE.match(refused.state))
    # What failed inside a task may come as text.
    return bool(_GONE_WORDS.search(str(failure)))


@dataclass(frozen=True, slots=True)
class Postgres(Jdbc):
    """A table of a PostgreSQL database. See `postgres`."""

    system: ClassVar[str] = "postgres"
    jars: ClassVar[frozenset[JarSet]] = frozenset({JarSet.POSTGRES})


@dataclass(frozen=True, slots=True)
class MariaDb(Jdbc):
    """A table of a MariaDB database. See `mariadb`."""

    system: ClassVar[str] = "mariadb"
    jars: ClassVar[frozenset[JarSet]] = frozenset({JarSet.MARIADB})


def postgres(
    table: str, *, connection: str | None = None, options: Mapping[str, object] | None = None
) -> Postgres:
    """A table of a PostgreSQL database.

    Writing: append, update with the table's `key` (a row replaces the one of its key), complete;
    exactly once: rows and batch number are written in one transaction. A missing table is made,
    with the key as its primary key; one that does not fit is an error before the start. Structures
    become JSON. While the database is away a batch is tried again for half a minute. A batch run
    replaces the content in one transaction.

    Reading: as a lookup or a batch input. The connection gives `url`, `user` and `password`. With
    a schema the columns are brought to its types, and one that the table lacks is an error;
    without one the database's are used.

    >>> postgres("public.devices").describe()
    'postgres table public.devices'
    """
    return Postgres(table, _DRIVER, connection, option_texts(options))


def mariadb(
    table: str, *, connection: str | None = None, options: Mapping[str, object] | None = None
) -> MariaDb:
    """A table of a MariaDB database, read and written as `postgres` is.

    Moments are kept as `datetime(6)` in UTC, structures as `json`, texts of a key in 255 characters
    at most. The driver (LGPL) is fetched at the first use.

    >>> mariadb("devices").describe()
    'mariadb table devices'
    """
    return MariaDb(table, _MARIA_DRIVER, connection, option_texts(options))


def jdbc(
    table: str,
    *,
    connection: str,
    driver: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Jdbc:
    """A table of any database with a JDBC driver, read and written as `postgres` is.

    The connection gives `url` and whatever else the driver takes; the driver's jar is named in
    the setting `spark.jars`. `options` are Spark's, such as `partitionColumn` or `query`. Update
    mode works with the drivers of PostgreSQL and MariaDB; the others append and replace.

    >>> jdbc("devices", connection="warehouse", driver="org.h2.Driver").describe()
    'jdbc table devices'
    """
    return Jdbc(table, driver, connection, option_texts(options))
