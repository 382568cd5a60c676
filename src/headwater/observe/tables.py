"""Which reader serves a table: plain Delta and file readers, the running process, or Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.connectors.files import Files
from headwater.definitions import Definitions, Table, Trigger
from headwater.errors import NotRunning, RowsNotKept, UnknownTable
from headwater.events import Report, silent
from headwater.observe.rows import Rows, delta_rows, file_rows
from headwater.runtime import control
from headwater.runtime.about import place_of
from headwater.runtime.ownership import FoundRun, find_runs
from headwater.runtime.session import open_session
from headwater.runtime.specification import read_request
from headwater.runtime.storage import Storage
from headwater.settings import Settings


def table_names(definitions: Definitions, settings: Settings) -> list[str]:
    """Every table that can be shown: results, rejected records, and what the storage holds."""
    rejected = [
        f"{source.name}__rejected"
        for source in definitions.sources.values()
        if source.watermark or (source.connector.parses and source.schema)
    ]
    late = [f"{table}__late" for table in definitions.tables]
    known = dict.fromkeys([*definitions.tables, *rejected, *late])
    storage = Storage(settings.storage_root, definitions.pipeline)
    if storage.is_local and (folder := Path(storage.table("x")).parent).is_dir():
        known |= dict.fromkeys(sorted(entry.name for entry in folder.iterdir()))
    return list(known)


def table_rows(
    definitions: Definitions,
    settings: Settings,
    name: str,
    limit: int,
    *,
    report: Report = silent,
) -> Rows | None:
    """The newest rows of a table; None where nothing was written yet.

    Raises UnknownTable, NotRunning for rows that live in a process that has ended, RowsNotKept
    for sinks that cannot be read.
    """
    if name not in table_names(definitions, settings):
        raise UnknownTable(name, table_names(definitions, settings))
    table = definitions.tables.get(name)
    storage = Storage(settings.storage_root, definitions.pipeline)
    sink = table.into if table is not None else None
    place = place_of(name, sink, settings, storage)
    if place["kind"] in ("delta", "files"):
        return rows_at(place, limit)
    if place["kind"] == "memory":
        return _rows_of_process(definitions.pipeline, settings, name, limit)
    assert table is not None
    assert sink is not None
    if not sink.reads_batches:
        raise RowsNotKept(name, sink.describe(), where=table.location)
    spark = open_session(settings, sink.jars, report=report)
    request = read_request(table, sink, settings, storage, Trigger.default())
    frame = sink.read_batch(spark, request)
    return Rows(tuple(frame.columns), tuple(tuple(row) for row in frame.tail(limit)), None)


def rows_at(place: Mapping[str, Any], limit: int) -> Rows | None:
    """The newest rows at a place that plain readers can read."""
    if place["kind"] == "delta":
        return delta_rows(place["path"], limit)
    folder, has_header = Path(place["path"]), bool(place["has_header"])
    return file_rows(folder, place["format"], limit, has_header=has_header)


def can_be_read_at_once(table: Table) -> bool:
    """Whether reading costs neither a Spark job nor another process."""
    return table.into is None or table.into.system == "delta" or isinstance(table.into, Files)


def running(settings: Settings, pipeline: str) -> FoundRun | None:
    runs = find_runs(settings.local_folder)
    return next((run for run in runs if run.is_alive and run.record.pipeline == pipeline), None)


def _rows_of_process(pipeline: str, settings: Settings, name: str, limit: int) -> Rows | None:
    run = running(settings, pipeline)
    if run is None:
        raise NotRunning(f"table {name!r} lives in the memory of a running pipeline")
    answer = control.ask(run.record, "rows", table=name, rows=limit)
    if "error" in answer:
        raise NotRunning(f"table {name!r}: {answer['error']}")
    rows = tuple(tuple(row) for row in answer["rows"])
    return Rows(tuple(answer["columns"]), rows, None)
