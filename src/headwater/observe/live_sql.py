"""Questions in SQL over stored tables, answered by DuckDB in this process.

Spark's dialect is read and translated; the engine can reach nothing but the tables of the question:
no file, no network, no extension. Rows, time and memory are limited.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.errors import (
    HeadwaterError,
    SqlFailed,
    SqlRefused,
    SqlTimeout,
    SqlTooLarge,
    nearest,
)

if TYPE_CHECKING:
    from sqlglot import exp

DEFAULT_ROWS = 1000
DEFAULT_TIMEOUT_S = 30.0
_MEMORY = "1GB"
_THREADS = 2
_WALLS = (
    "SET TimeZone = 'UTC'",
    f"SET memory_limit = '{_MEMORY}'",
    f"SET threads = {_THREADS}",
    "SET temp_directory = ''",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)

OpenTable = Callable[[str], Any]
"""An Arrow table or data set by name."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`is_cut` says that there were more rows than the limit."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool
    seconds: float


def answer(
    text: str,
    open_table: OpenTable,
    tables: Iterable[str],
    *,
    rows: int = DEFAULT_ROWS,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Answer:
    """The answer to one SELECT in Spark's SQL.

    Raises SqlRefused for anything that is not a question, SqlFailed where it cannot be answered,
    SqlTimeout and SqlTooLarge at the limits, and whatever `open_table` raises.
    """
    began = time.monotonic()
    known = list(tables)
    question = parsed(text)
    data = {name: open_table(name) for name in _tables_read(question, known)}
    translated = question.sql(dialect="duckdb", unsupported_level=_ignore())
    found = _asked(translated, data, known, rows=rows, timeout_s=timeout_s)
    kept = found.slice(0, rows).to_pylist()
    return Answer(
        tuple(found.column_names),
        tuple(tuple(row.values()) for row in kept),
        found.num_rows > rows,
        time.monotonic() - began,
    )


def parsed(text: str) -> exp.Query:
    """The one question that the text holds."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    try:
        statements = [found for found in sqlglot.parse(text, read="spark") if found is not None]
    except (ParseError, TokenError) as problem:
        raise SqlFailed(_first_error(problem)) from None
    if len(statements) != 1:
        raise SqlRefused(f"{len(statements)} statements")
    [statement] = statements
    if not isinstance(statement, exp.Query) or statement.find(exp.Into, exp.DML, exp.DDL):
        raise SqlRefused(f"{statement.key.upper()}: {text.strip()[:60]}")
    return statement


def _first_error(problem: Exception) -> str:
    """Where and what, without the escape codes with which sqlglot underlines."""
    errors = getattr(problem, "errors", None)
    if errors:
        first = errors[0]
        return f"line {first['line']}, column {first['col']}: {first['description']}"
    return str(problem).splitlines()[0]


def _ignore() -> Any:
    from sqlglot import ErrorLevel

    return ErrorLevel.IGNORE


def _tables_read(question: exp.Query, known: list[str]) -> dict[str, None]:
    """Names of tables, by the spelling of those who declared them."""
    from sqlglot import exp

    own = {cte.alias.lower() for cte in question.find_all(exp.CTE)}
    by_lower = {name.lower(): name for name in known}
    found: dict[str, None] = {}
    for table in question.find_all(exp.Table):
        if not table.name or table.name.lower() in own:
            continue
        if table.db:
            raise SqlFailed(f"{table.sql()}: tables have plain names here", tables=known)
        found[by_lower.get(table.name.lower(), table.name)] = None
    return found


def _asked(
    text: str, data: dict[str, Any], known: list[str], *, rows: int, timeout_s: float
) -> Any:
    import duckdb

    connection = duckdb.connect(":memory:")
    has_timed_out = threading.Event()

    def end() -> None:
        has_timed_out.set()
        connection.interrupt()

    timer = threading.Timer(timeout_s, end)
    try:
        for name, found in data.items():
            connection.register(name, found)
        for wall in _WALLS:
            connection.execute(wall)
        timer.start()
        return connection.sql(text).limit(rows + 1).to_arrow_table()
    except duckdb.InterruptException:
        raise SqlTimeout(timeout_s) from None
    except duckdb.OutOfMemoryException:
        raise SqlTooLarge(_MEMORY) from None
    except HeadwaterError:
        raise
    except Exception as problem:
        if has_timed_out.is_set():
            raise SqlTimeout(timeout_s) from None
        raise SqlFailed(_in_words(str(problem), known), tables=known) from None
    finally:
        timer.cancel()
        connection.close()


def _in_words(message: str, known: list[str]) -> str:
    """DuckDB's first line, its candidates, and the nearest table."""
    lines = [line for line in message.splitlines() if line.strip()]
    kept = [line for line in lines[:2] if not line.startswith("LINE ")]
    text = " ".join(kept)
    if "Table with name" in text:
        missing = text.split("Table with name ", 1)[1].split()[0].strip('"')
        close = nearest(missing, known)
        return f"there is no table {missing!r}" + (f"; did you mean {close!r}?" if close else "")
    return text
