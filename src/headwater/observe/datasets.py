"""Stored tables as Arrow data, for whoever asks more of them than their newest rows."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.connectors.manifest import committed_files
from headwater.definitions import Definitions, Trigger, View
from headwater.errors import (
    NothingWritten,
    NotRunning,
    NotStored,
    PipelineUnreachable,
    RowsNotKept,
    TooManyRows,
    UnknownTable,
)
from headwater.events import Report, silent
from headwater.observe.rows import read_file
from headwater.observe.tables import running, table_names
from headwater.runtime import control
from headwater.runtime.about import place_of
from headwater.runtime.ownership import RunRecord
from headwater.runtime.storage import Storage
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_ROWS = 100_000
"""What is not on this machine's disk is copied, so many rows at most."""


def table_data(
    definitions: Definitions, settings: Settings, name: str, *, report: Report = silent
) -> Any:
    """A table as an Arrow table or data set; a view as its sources give it now.

    Raises UnknownTable, NotStored, NothingWritten, NotRunning, TooManyRows and what the sink's or
    the sources' reader raises.
    """
    known = definitions.by_name.get(name)
    table = definitions.tables.get(name)
    if isinstance(known, View):
        return _computed(definitions, settings, name, report)
    if known is not None and table is None:
        kind = type(known).__name__.lower()
        raise NotStored(name, kind, table_names(definitions, settings))
    if name not in table_names(definitions, settings):
        raise UnknownTable(name, table_names(definitions, settings))
    sink = table.into if table is not None else None
    storage = Storage(settings.storage_root, definitions.pipeline)
    place = place_of(name, sink, settings, storage)
    if place["kind"] in ("delta", "files"):
        return data_at(place, name)
    if place["kind"] == "memory":
        found = running(settings, definitions.pipeline)
        return data_of_process(found.record if found else None, name)
    assert table is not None
    assert sink is not None
    if place["kind"] == "none":
        raise RowsNotKept(name, sink.describe(), where=table.location)
    from headwater.runtime.session import open_session
    from headwater.runtime.specification import read_request

    spark = open_session(settings, sink.jars, report=report)
    request = read_request(table, sink, settings, storage, Trigger.default())
    return _copied(sink.read_batch(spark, request), name)


def _computed(definitions: Definitions, settings: Settings, view: str, report: Report) -> Any:
    from headwater.planning import make_plan
    from headwater.runtime.batch import frames_for

    plan = make_plan(definitions, settings, for_batch=True, report=report)
    sinks = {query.name: query.sink for query in plan.queries}
    frames = frames_for(plan.spark, plan.graph, settings, sinks)
    return _copied(frames.batch()[view], view)


def _copied(frame: DataFrame, name: str) -> Any:
    return _whole(frame.limit(MOST_ROWS + 1).toArrow(), name)


def _whole(rows: Any, name: str) -> Any:
    if rows.num_rows > MOST_ROWS:
        raise TooManyRows(name, MOST_ROWS)
    return rows


def data_at(place: Mapping[str, Any], name: str) -> Any:
    """The rows at a place on disk; read when they are asked for, as far as the format allows."""
    if place["kind"] == "delta":
        return _delta(place["path"], name)
    files = committed_files(Path(place["path"]))
    if not files:
        raise NothingWritten(name)
    if place["format"] == "parquet":
        from pyarrow import dataset

        return dataset.dataset([str(file) for file in files], format="parquet")
    import pyarrow

    tables = [read_file(f, place["format"], has_header=bool(place["has_header"])) for f in files]
    filled = [table for table in tables if table.num_columns]
    return pyarrow.concat_tables(filled, promote_options="permissive")


def _delta(path: str, name: str) -> Any:
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(path).to_pyarrow_dataset()
    except (TableNotFoundError, FileNotFoundError):
        raise NothingWritten(name) from None


def data_of_process(record: RunRecord | None, name: str) -> Any:
    """The rows of a table that lives in the memory of a running pipeline."""
    import pyarrow

    if record is None:
        raise NotRunning(f"table {name!r} lives in the memory of a running pipeline")
    answer = control.ask(record, "arrow", table=name, rows=MOST_ROWS + 1)
    if "error" in answer:
        raise PipelineUnreachable(record.pipeline, record.pid, str(answer["error"]))
    return _whole(pyarrow.ipc.open_stream(base64.b64decode(answer["arrow"])).read_all(), name)
