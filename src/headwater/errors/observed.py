"""Looking at a pipeline: its servers, its rows in SQL."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors.base import EnvironmentProblem, QueryError, UsageError, listed


class AddressTaken(EnvironmentProblem):
    code = "ADDRESS_TAKEN"

    def __init__(self, what: str, port: int, holder: str | None) -> None:
        super().__init__(
            f"port {port} for the {what} is in use",
            found=holder or "a process of another user, or one that could not be named",
            remedy="choose another port, or 0 for one that is free",
            data="nothing was started",
        )


class SqlRefused(UsageError):
    """SQL that is more than one question."""

    code = "SQL_REFUSED"

    def __init__(self, found: str) -> None:
        super().__init__(
            "only one SELECT is answered",
            found=found,
            expected="one statement that reads, such as SELECT … FROM a table",
            data="nothing was read or written",
        )


class SqlFailed(UsageError):
    code = "SQL_FAILED"

    def __init__(self, found: str, *, tables: Iterable[str] = ()) -> None:
        names = list(tables)
        super().__init__(
            "the SQL could not be answered",
            found=found,
            remedy=f"tables here: {listed(names)}" if names else None,
            data="nothing was written",
        )


class SqlTimeout(QueryError):
    code = "SQL_TIMEOUT"

    def __init__(self, timeout_s: float) -> None:
        super().__init__(
            f"the SQL was not answered within {timeout_s:g} s and was ended",
            remedy="join on a column, filter by time, or give it longer with --timeout",
            data="nothing was written; the pipeline was not touched",
        )


class SqlTooLarge(QueryError):
    code = "SQL_TOO_LARGE"

    def __init__(self, limit: str) -> None:
        super().__init__(
            f"the SQL needed more than {limit} of memory and was ended",
            remedy="filter before a join or a sort, or select fewer columns",
            data="nothing was written; the pipeline was not touched",
        )


class TooManyRows(QueryError):
    """Part of the rows would give a wrong answer."""

    code = "TOO_MANY_ROWS"

    def __init__(self, name: str, most: int) -> None:
        super().__init__(
            f"{name!r} gives this question more than {most:,} rows, which would have to be copied",
            remedy=f"filter or count in a SELECT of its own: … JOIN (SELECT … FROM {name} WHERE …)",
            data="nothing was written; the pipeline was not touched",
        )


class RowsUnreadable(QueryError):
    """The system that holds a table's rows, or a source of a view, did not give them."""

    code = "ROWS_UNREADABLE"

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"the rows of {name!r} cannot be read now",
            found=problem,
            remedy="see whether the system that holds them answers, and ask again",
            data="nothing was written; the pipeline was not touched",
        )


class NotStored(UsageError):
    """A source, lookup or model was asked for its rows."""

    code = "NOT_STORED"

    def __init__(self, name: str, kind: str, tables: Iterable[str]) -> None:
        super().__init__(
            f"{name!r} is a {kind}, whose rows are not stored",
            expected=f"one of the tables: {listed(tables)}",
            remedy=f"ask a table that reads {name!r}",
        )


class NothingWritten(UsageError):
    code = "NOTHING_WRITTEN"

    def __init__(self, table: str) -> None:
        super().__init__(
            f"nothing was written to {table!r} yet",
            remedy="run the pipeline; a late or rejected table appears with its first row",
            next_command="headwater run",
        )


class NothingToPlot(UsageError):
    code = "NOTHING_TO_PLOT"

    def __init__(self, columns: Iterable[str]) -> None:
        super().__init__(
            "a plot needs a column of numbers",
            found=f"columns: {', '.join(columns)}",
            remedy="select a label and a number, such as SELECT device, count(*) … GROUP BY device",
        )


class NoHistory(UsageError):
    code = "NO_HISTORY"

    def __init__(self, pipeline: str, folder: str) -> None:
        super().__init__(
            f"pipeline {pipeline!r} has no history yet",
            found=f"nothing in {folder}",
            remedy="run it for a while; ten batches are enough",
            next_command="headwater run",
        )


class FolderMissing(UsageError):
    code = "FOLDER_MISSING"

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"there is no folder {folder!r}",
            expected="folders of projects, in which pipelines were started",
            next_command="headwater console",
        )
