"""The newest rows of stored tables, read without Spark."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.connectors.manifest import committed_files

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a table; `total` is how many it holds, None where that is not known."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int | None


def delta_rows(path: str, limit: int) -> Rows | None:
    """The rows that the newest files of a Delta table hold; None where there is no table.

    Costs the log and the last row groups of as few files as the limit needs.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        table = DeltaTable(path)
    except (TableNotFoundError, FileNotFoundError):
        return None
    dataset = table.to_pyarrow_dataset()
    # Names are unique; the folders before them are escaped differently in log and data set.
    fragments = {_name(str(fragment.path)): fragment for fragment in dataset.get_fragments()}
    newest = [fragments[name] for name in _newest_first(table) if name in fragments]
    found = _tail((_row_groups(fragment, dataset.schema) for fragment in newest), limit)
    columns = tuple(dataset.schema.names)
    return Rows(columns, found, sum(fragment.count_rows() for fragment in newest))


def _newest_first(table: Any) -> list[str]:
    """The names of a table's files by the time at which they were written."""
    import pyarrow

    actions = pyarrow.table(table.get_add_actions(flatten=True))
    times = actions.column("modification_time").cast(pyarrow.int64(), safe=False).to_pylist()
    names = [_name(path) for path in actions.column("path").to_pylist()]
    return [name for _, name in sorted(zip(times, names, strict=True), reverse=True)]


def _name(path: str) -> str:
    return urllib.parse.unquote(path).rsplit("/", 1)[-1]


def _row_groups(fragment: Any, schema: pyarrow.Schema) -> Iterator[pyarrow.Table]:
    """The row groups of a Parquet file, last one first."""
    from pyarrow.dataset import Scanner

    for part in reversed(fragment.split_by_row_group()):
        yield Scanner.from_fragment(part, schema=schema).to_table()


def _tail(files: Iterable[Iterable[pyarrow.Table]], limit: int) -> tuple[tuple[Any, ...], ...]:
    """The last `limit` rows, newest file first, each file's rows in their order."""
    found: list[tuple[Any, ...]] = []
    for tables in files:
        mine: list[tuple[Any, ...]] = []
        for table in tables:
            missing = limit - len(found) - len(mine)
            if missing <= 0:
                break
            mine = _tuples(table.slice(max(0, table.num_rows - missing))) + mine
        found += mine
        if len(found) >= limit:
            break
    return tuple(found)


def _tuples(table: pyarrow.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def file_rows(folder: Path, format: str, limit: int, *, has_header: bool = True) -> Rows | None:
    """Rows of the newest files of a folder; files that no committed batch names do not count."""
    files = committed_files(folder)
    if not files:
        return None
    newest = [read_file(file, format, has_header=has_header) for file in _last(files, limit)]
    columns = tuple(newest[0].column_names) if newest else ()
    return Rows(columns, _tail(([table] for table in newest), limit), None)


def _last(files: Sequence[Path], limit: int) -> list[Path]:
    # A batch leaves one file per partition, and some of them hold no row.
    return list(reversed(files))[: limit + 16]


def read_file(file: Path, format: str, *, has_header: bool) -> pyarrow.Table:
    """All rows of one file; an empty CSV or JSON file has no columns."""
    import pyarrow

    match format:
        case "parquet":
            from pyarrow import parquet

            return parquet.read_table(file, partitioning=None)
        case "orc":
            from pyarrow import orc

            return orc.read_table(file)
        case "csv":
            from pyarrow import csv

            options = csv.ReadOptions(autogenerate_column_names=not has_header)
            return _or_empty(lambda: csv.read_csv(file, read_options=options), file)
        case "json":
            from pyarrow import json as arrow_json

            return _or_empty(lambda: arrow_json.read_json(file), file)
    lines = file.read_text(errors="backslashreplace").splitlines()
    return pyarrow.table({"value": pyarrow.array(lines, pyarrow.string())})


def _or_empty(read: Any, file: Path) -> pyarrow.Table:
    import pyarrow

    return read() if file.stat().st_size else pyarrow.table({})
