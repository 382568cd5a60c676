"""A database as its own ledger: rows and the number of their batch in one transaction.

One line per query, `(query, batch)`, advanced inside the transaction that writes the rows. A batch
that comes again finds its number and is left out; of two drivers only one can advance the line.
`query` is the id of the checkpoint: a fresh checkpoint starts at batch 0 under another id.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.jvm.classes import java_class, kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEDGER = "headwater_ledger"
_JDBC = "org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions"


class SqlFailed(Exception):
    """What a database refused, with its code (`state`, as in the SQL standard)."""

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.state = state


@dataclass(frozen=True, slots=True)
class Database:
    """How to reach a database from the driver: Spark's own JDBC options."""

    spark: SparkSession
    options: Mapping[str, str] = field(repr=False)

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """A connection in which every statement is its own transaction, until `transaction`."""
        with _sql_errors():
            connection = self._connect()
        try:
            yield Session(connection)
        finally:
            with contextlib.suppress(Exception):
                connection.close()

    def java_options(self) -> Any:
        key = ("jdbc", tuple(self.options.items()))
        return kept(self.spark, key, self._make_java_options)

    def _make_java_options(self) -> Any:
        given = java_class(self.spark, "java.util.HashMap")()
        # Spark's options name a table, also where only a connection is wanted.
        for name, value in {"dbtable": LEDGER, **self.options}.items():
            given.put(name, value)
        maps = java_class(self.spark, "org.apache.spark.api.python.PythonUtils")
        return java_class(self.spark, _JDBC)(maps.toScalaMap(given))

    def most_tasks(self) -> int | None:
        """How many tasks may write at once, where Spark's option `numPartitions` says so."""
        most = self.java_options().numPartitions()
        return int(most.get()) if most.isDefined() else None

    def _connect(self) -> Any:
        dialects = java_class(self.spark, "org.apache.spark.sql.jdbc.JdbcDialects")
        dialect = dialects.get(self.options["url"])
        return dialect.createConnectionFactory(self.java_options()).apply(-1)


class Session:
    """One connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, sql: str, *values: str | int) -> int:
        """Runs a statement; the number of rows that it changed."""
        with _sql_errors(), self._prepared(sql, values) as statement:
            return int(statement.executeUpdate())

    def rows(self, sql: str, *values: str | int) -> list[tuple[Any, ...]]:
        with _sql_errors(), self._prepared(sql, values) as statement:
            found = statement.executeQuery()
            columns = range(1, found.getMetaData().getColumnCount() + 1)
            rows = []
            while found.next():
                rows.append(tuple(found.getObject(column) for column in columns))
            return rows

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing of what is executed inside."""
        with _sql_errors():
            self._connection.setAutoCommit(False)
        try:
            yield
            with _sql_errors():
                self._connection.commit()
        except BaseException:
            with contextlib.suppress(Exception):
                self._connection.rollback()
            raise
        finally:
            with contextlib.suppress(Exception):
                self._connection.setAutoCommit(True)

    def columns(self, table: str) -> list[Column] | None:
        """The columns of a table in their order; None where it does not exist."""
        schema, name = split_name(table)
        with _sql_errors():
            catalog = self._connection.getCatalog()
            found = self._connection.getMetaData().getColumns(
                catalog, schema or self._connection.getSchema(), _pattern(name), None
            )
            columns = []
            while found.next():
                is_required = found.getString("IS_NULLABLE") == "NO" and not (
                    found.getString("COLUMN_DEF") or found.getString("IS_AUTOINCREMENT") == "YES"
                )
                name, kind = found.getString("COLUMN_NAME"), found.getString("TYPE_NAME")
                columns.append(Column(str(name), str(kind), is_required))
            return columns or None

    def tables(self, beside: str, prefix: str) -> list[str]:
        """Tables in the schema of a table whose names begin so."""
        schema, _ = split_name(beside)
        with _sql_errors():
            found = self._connection.getMetaData().getTables(
                self._connection.getCatalog(),
                schema or self._connection.getSchema(),
                f"{_pattern(prefix)}%",
                None,
            )
            names = []
            while found.next():
                names.append(str(found.getString("TABLE_NAME")))
            return names

    def unique_keys(self, table: str) -> list[frozenset[str]]:
        """The sets of columns that are unique in a table."""
        schema, name = split_name(table)
        with _sql_errors():
            catalog = self._connection.getCatalog()
            found = self._connection.getMetaData().getIndexInfo(
                catalog, schema or self._connection.getSchema(), name, True, True
            )
            keys: dict[str, set[str]] = {}
            while found.next():
                if index := found.getString("INDEX_NAME"):
                    keys.setdefault(index, set()).add(found.getString("COLUMN_NAME"))
            return [frozenset(columns) for columns in keys.values()]

    @contextlib.contextmanager
    def _prepared(self, sql: str, values: Sequence[str | int]) -> Iterator[Any]:
        statement = self._connection.prepareStatement(sql)
        try:
            for position, value in enumerate(values, start=1):
                if isinstance(value, int):
                    statement.setLong(position, value)
                else:
                    statement.setString(position, value)
            yield statement
        finally:
            with contextlib.suppress(Exception):
                statement.close()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `is_required` where an insert has to give it."""

    name: str
    kind: str
    """Its type, as the database names it."""
    is_required: bool


@dataclass(frozen=True, slots=True)
class DatabaseLedger:
    """The line of one query. `table` is the ledger's own name, quoted."""

    table: str
    query: str

    def create(self, session: Session) -> None:
        session.execute(
            f"CREATE TABLE IF NOT EXISTS {self.table} "
            "(query VARCHAR(200) NOT NULL PRIMARY KEY, batch BIGINT NOT NULL)"
        )

    def last(self, session: Session) -> int:
        """The last batch that was written; -1 where none was."""
        found = session.rows(f"SELECT batch FROM {self.table} WHERE query = ?", self.query)
        return int(found[0][0]) if found else -1

    def advance(self, session: Session, batch: int) -> bool:
        """Inside a transaction: whether the batch is to be written now. Others wait for the line
        until the transaction ends, and then find the number."""
        if self.last(session) < 0:
            session.execute(
                f"INSERT INTO {self.table} (query, batch) SELECT ?, -1 "
                f"WHERE NOT EXISTS (SELECT 1 FROM {self.table} WHERE query = ?)",
                self.query,
                self.query,
            )
        is_next = f"UPDATE {self.table} SET batch = ? WHERE query = ? AND batch < ?"
        return session.execute(is_next, batch, self.query, batch) == 1


def split_name(table: str) -> tuple[str | None, str]:
    """
    >>> split_name("public.minutes")
    ('public', 'minutes')
    >>> split_name("minutes")
    (None, 'minutes')
    """
    schema, _, name = table.rpartition(".")
    return schema or None, name


def refusal(problem: BaseException) -> SqlFailed | None:
    """What a database refused, here or inside a task; None where it was something else."""
    if isinstance(problem, SqlFailed):
        return problem
    cause = getattr(problem, "java_exception", None)
    while cause is not None:
        if _is_of_sql(cause):
            message = " ".join(str(cause.getMessage()).split())
            return SqlFailed(message, str(cause.getSQLState() or ""))
        cause = cause.getCause()
    return None


def _is_of_sql(throwable: Any) -> bool:
    from py4j.java_gateway import JavaClass

    classes = JavaClass("java.lang.Class", throwable._gateway_client)
    return bool(classes.forName("java.sql.SQLException").isInstance(throwable))


def _pattern(name: str) -> str:
    """A name where JDBC takes a pattern."""
    return name.replace("_", r"\_").replace("%", r"\%")


@contextlib.contextmanager
def _sql_errors() -> Iterator[None]:
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as failure:
        refused = refusal(failure)
        if refused is None:
            raise
        raise refused from failure
