"""What an external system cannot do, or is not there."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors.base import (
    DefinitionError,
    EnvironmentProblem,
    Location,
    QueryError,
    UsageError,
    listed,
    nearest,
)


class NotReadable(DefinitionError):
    code = "NOT_READABLE"

    def __init__(
        self,
        system: str,
        way: str,
        *,
        found: str | None = None,
        remedy: str | None = None,
        where: Location | None = None,
    ) -> None:
        super().__init__(
            f"{system} cannot be read as {way}", where=where, found=found, remedy=remedy
        )


class NotWritable(DefinitionError):
    code = "NOT_WRITABLE"

    def __init__(
        self, system: str, *, remedy: str | None = None, where: Location | None = None
    ) -> None:
        super().__init__(
            f"{system} cannot be written to",
            where=where,
            remedy=remedy or "choose a sink with into=…, or leave it out for a managed Delta table",
        )


class NotReplaceable(UsageError):
    code = "NOT_REPLACEABLE"

    def __init__(self, system: str, table: str) -> None:
        super().__init__(
            f"table {table!r}: a batch run replaces a table's content, which {system} cannot do",
            remedy="write the batch elsewhere, or run the table as a stream that stops by itself",
            data="nothing was written",
            next_command="headwater run --available-now",
        )


class LimitUnsupported(DefinitionError):
    """`max_per_batch` in a unit that the connector cannot count."""

    code = "LIMIT_UNSUPPORTED"

    def __init__(
        self, source: str, system: str, found: str, units: Iterable[str], *, where: Location
    ) -> None:
        units = list(units)
        super().__init__(
            f"source {source!r}: {system} cannot hold a batch to {found}",
            where=where,
            expected=f"a limit in {listed(units)}" if units else "no max_per_batch",
        )


class InvalidConnector(DefinitionError):
    """Arguments of a connector that do not make one."""

    code = "INVALID_CONNECTOR"

    def __init__(
        self, system: str, problem: str, *, expected: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(f"{system}: {problem}", expected=expected, remedy=remedy)


class PathMissing(EnvironmentProblem):
    """A file or folder that an input reads is not there."""

    code = "PATH_MISSING"

    def __init__(self, name: str, path: str, siblings: Iterable[str] = ()) -> None:
        close = nearest(path.rsplit("/", 1)[-1], siblings)
        super().__init__(
            f"{name!r} reads {path}, which does not exist",
            expected="a folder that receives files, or a file",
            remedy=f"did you mean {close!r}?" if close else f"create it: mkdir -p {path}",
            data="nothing was read or written",
        )


class DeltaTableMissing(EnvironmentProblem):
    code = "DELTA_TABLE_MISSING"

    def __init__(self, name: str, path: str) -> None:
        super().__init__(
            f"{name!r} reads {path}, which is not a Delta table",
            expected="a folder with a _delta_log",
            remedy="write the table first, or correct the path",
            data="nothing was read or written",
        )


class BrokerUnreachable(EnvironmentProblem):
    code = "BROKER_UNREACHABLE"

    def __init__(self, *, address: str, origin: str, reason: str, connection: str) -> None:
        super().__init__(
            f"no Kafka broker answers at {address}",
            found=f"{reason}; the address comes from {origin}",
            remedy=f"start the broker, or correct connection {connection!r} in headwater.toml",
            data="nothing was read or written",
            next_command="headwater services up kafka" if connection == "kafka" else None,
        )


class TopicMissing(EnvironmentProblem):
    code = "TOPIC_MISSING"

    def __init__(self, *, topic: str, topics: Iterable[str], address: str) -> None:
        names = [name for name in topics if not name.startswith("__")]
        close = nearest(topic, names)
        super().__init__(
            f"the broker at {address} has no topic {topic!r}",
            found=f"topics: {listed(names)}",
            remedy=f"did you mean {close!r}? Otherwise let it be created: "
            if close
            else "create it, or let it be created: ",
            data="nothing was read or written",
        )
        self.remedy = f"{self.remedy}kafka({topic!r}, create=True)"


class SocketUnreachable(EnvironmentProblem):
    code = "SOCKET_UNREACHABLE"

    def __init__(self, *, name: str, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"source {name!r}: nothing listens at {host}:{port}",
            found=reason,
            remedy="start the server that sends the lines before the pipeline",
            data="nothing was read or written",
            next_command=f"nc -lk {port}" if host in ("localhost", "127.0.0.1") else None,
        )


class KeyNotUnique(QueryError):
    """One batch holds two rows with the same key, so that neither can win."""

    code = "KEY_NOT_UNIQUE"

    def __init__(
        self,
        table: str,
        key: Iterable[str],
        batch: int,
        *,
        data: str = "the batch was not written; earlier batches are untouched",
    ) -> None:
        super().__init__(
            f"table {table!r}: batch {batch} has several rows for one key",
            found=f"key ({', '.join(key)})",
            remedy="name every grouping column in key=[…], or say order_by=: the last row wins",
            data=data,
        )


class KeyIsNull(QueryError):
    """A row that is stored under its key has none."""

    code = "KEY_IS_NULL"

    def __init__(self, table: str, key: Iterable[str], batch: int, *, data: str) -> None:
        super().__init__(
            f"table {table!r}: batch {batch} has a row without a key",
            found=f"null in the key ({', '.join(key)})",
            remedy="leave such rows out in the function, or give them a value: coalesce(…)",
            data=data,
        )


class KeyTaken(QueryError):
    """A row cannot be stored under its key, because something else is."""

    code = "KEY_TAKEN"

    def __init__(self, table: str, batch: int, found: str, *, remedy: str, data: str) -> None:
        super().__init__(
            f"table {table!r}: batch {batch} has a row for a key that is taken",
            found=found,
            remedy=remedy,
            data=data,
        )


class WriterFenced(QueryError):
    """Another driver has taken over the batch that this one was writing."""

    code = "WRITER_FENCED"

    def __init__(self, table: str, batch: int) -> None:
        super().__init__(
            f"table {table!r}: another driver has taken over batch {batch}",
            found="two drivers on one checkpoint; this one began earlier",
            remedy="let one of them run",
            data="the other one writes the batch; nothing of it is written twice",
            next_command="headwater status",
        )


class DatabaseUnreachable(EnvironmentProblem):
    code = "DATABASE_UNREACHABLE"

    def __init__(self, table: str, connection: str, reason: str, origin: str) -> None:
        super().__init__(
            f"table {table!r}: the database of connection {connection!r} does not answer",
            found=f"{reason}; the address comes from {origin}",
            remedy="start the database, or correct the connection in headwater.toml",
            data="the batch was not written and comes again with the next start",
            next_command=f"headwater services up {connection}"
            if connection in ("mariadb", "postgres", "redis")
            else None,
        )


class DatabaseRefused(EnvironmentProblem):
    """Wrong user, password or database name."""

    code = "DATABASE_REFUSED"

    def __init__(self, table: str, connection: str, reason: str, origin: str) -> None:
        super().__init__(
            f"table {table!r}: the database of connection {connection!r} refuses the login",
            found=f"{reason}; user, password and database come from {origin}",
            remedy="correct the connection in headwater.toml, or the secret that it refers to",
            data="nothing was written",
        )


class RowsRefused(QueryError):
    """A value that a column of a database does not take, or a row that breaks a constraint."""

    code = "ROWS_REFUSED"

    def __init__(self, table: str, target: str, reason: str) -> None:
        super().__init__(
            f"table {table!r}: the database refuses rows for {target}",
            found=reason,
            remedy="correct the value in the function, or the column in the database",
            data="nothing of the batch was written; it comes again at the next start",
        )


class SinkDoesNotFit(EnvironmentProblem):
    """A table of a database that a result table cannot be written to."""

    code = "SINK_DOES_NOT_FIT"

    def __init__(
        self,
        table: str,
        target: str,
        *,
        missing: Iterable[str] = (),
        unfilled: Iterable[str] = (),
        key: Iterable[str] = (),
        mistyped: Iterable[tuple[str, str, str]] = (),
    ) -> None:
        """`mistyped` are columns with the type in the database and the one that is given."""
        missing, unfilled, key = list(missing), list(unfilled), list(key)
        if wrong := [f"column {name} is {has}, given {kind}" for name, has, kind in mistyped]:
            found = "; ".join(wrong)
            remedy = "change the type in the database, or cast the column in the function"
        elif key:
            found = f"no unique key on ({', '.join(key)})"
            remedy = f"ALTER TABLE {target} ADD PRIMARY KEY ({', '.join(key)})"
        elif missing:
            found = f"it has no column {listed(missing)}"
            remedy = "add the columns to the table in the database, or drop them in the function"
        else:
            found = f"it requires {listed(unfilled)}, which the function does not give"
            remedy = "give these columns a default in the database, or add them in the function"
        super().__init__(
            f"table {table!r} cannot be written to {target}",
            found=found,
            remedy=remedy,
            data="nothing was written",
        )
