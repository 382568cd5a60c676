"""Questions in SQL over stored tables, answered by DuckDB in this process.

Spark's dialect is read and translated; the engine can reach nothing but the tables of the question:
no file, no network, no extension. Rows, time and memory are limited. Of rows that only Spark can
read, Spark answers each plain SELECT of the question, and DuckDB goes on with the answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.errors import (
    HeadwaterError,
    SqlFailed,
    SqlTimeout,
    SqlTooLarge,
    TooManyRows,
    nearest,
)
from headwater.sql.questions import is_input, is_plain, parsed, tables_of

if TYPE_CHECKING:
    from sqlglot import exp

DEFAULT_ROWS = 1000
DEFAULT_TIMEOUT_S = 30.0
MOST_ROWS = 100_000
"""What Spark answers to a part of a question is copied, so many rows at most."""
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
"""An Arrow table or data set by name, or SparkRows."""


@dataclass(frozen=True, slots=True)
class SparkRows:
    """Rows that only Spark can read; `ask` has it answer a plain question, with so many rows."""

    name: str
    ask: Callable[[str, int], Any]

    def copied(self, question: exp.Query) -> Any:
        """Raises TooManyRows: part of them would give a wrong answer."""
        found = self.ask(question.sql(dialect="spark"), MOST_ROWS + 1)
        if found.num_rows > MOST_ROWS:
            raise TooManyRows(self.name, MOST_ROWS)
        return found


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
    held = [found for found in data.values() if isinstance(found, SparkRows)]
    if len(data) == len(held) == 1 and is_plain(question, held[0].name):
        found = held[0].ask(question.sql(dialect="spark"), rows + 1)
    else:
        question, data = _copied_parts(question, data, held)
        translated = question.sql(dialect="duckdb", unsupported_level=_ignore())
        found = _asked(translated, data, known, rows=rows, timeout_s=timeout_s)
    kept = found.slice(0, rows)
    return Answer(
        tuple(_distinct(found.column_names)),
        tuple(zip(*(column.to_pylist() for column in kept.columns), strict=True)),
        found.num_rows > rows,
        time.monotonic() - began,
    )


def _copied_parts(
    question: exp.Query, data: dict[str, Any], held: list[SparkRows]
) -> tuple[exp.Query, dict[str, Any]]:
    """The question over copies of what Spark answers to its parts."""
    from sqlglot import exp

    question, found = question.copy(), dict(data)
    for rows in held:
        for part in list(question.find_all(exp.Select)):
            if is_input(part) and is_plain(part, rows.name) and part.root() is question:
                name = f"headwater_part_{len(found)}"
                found[name] = rows.copied(part)
                part.replace(exp.select("*").from_(name))
        if any(table.name.lower() == rows.name.lower() for table in tables_of(question)):
            found[rows.name] = rows.copied(exp.select("*").from_(exp.to_identifier(rows.name)))
        else:
            del found[rows.name]
    return question, found


def _distinct(names: list[str]) -> Iterator[str]:
    """Names of columns as DuckDB tells them apart: `n`, `n_1`."""
    for number, name in enumerate(names):
        again = names[:number].count(name)
        yield f"{name}_{again}" if again else name


def _ignore() -> Any:
    from sqlglot import ErrorLevel

    return ErrorLevel.IGNORE


def _tables_read(question: exp.Query, known: list[str]) -> dict[str, None]:
    """Names of tables, by the spelling of those who declared them."""
    by_lower = {name.lower(): name for name in known}
    found: dict[str, None] = {}
    for table in tables_of(question):
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
