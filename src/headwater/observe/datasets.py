"""Stored tables as Arrow data, for whoever asks more of them than their newest rows."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
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
    RowsUnreadable,
    SqlFailed,
    SqlTimeout,
    UnknownTable,
)
from headwater.events import Report, silent
from headwater.observe.live_sql import DEFAULT_TIMEOUT_S, SparkRows
from headwater.observe.rows import read_file
from headwater.observe.tables import running, table_names
from headwater.runtime import control
from headwater.runtime.about import place_of
from headwater.runtime.copying import copied
from headwater.runtime.ownership import RunRecord
from headwater.runtime.storage import Storage
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table_data(
    definitions: Definitions,
    settings: Settings,
    name: str,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    report: Report = silent,
) -> Any:
    """A table as an Arrow table or data set; SparkRows where it takes Spark, and for a view, which
    is what its sources give when it is asked.

    Spark is that of the running pipeline, else a session of this process. Raises UnknownTable,
    NotStored, NothingWritten, NotRunning and RowsNotKept; when it is asked, SparkRows raises
    RowsUnreadable, SqlFailed and SqlTimeout.
    """
    known = definitions.by_name.get(name)
    table = definitions.tables.get(name)
    run = running(settings, definitions.pipeline)
    record = run.record if run else None
    if isinstance(known, View):
        if record is not None:
            return data_of_process(record, name, timeout_s=timeout_s)
        return _computed(definitions, settings, name, timeout_s, report)
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
    if place["kind"] == "memory" or (place["kind"] == "spark" and record is not None):
        return data_of_process(record, name, timeout_s=timeout_s)
    assert table is not None
    assert sink is not None
    if place["kind"] == "none":
        raise RowsNotKept(name, sink.describe(), where=table.location)
    from headwater.runtime.session import open_session
    from headwater.runtime.specification import read_request

    spark = open_session(settings, sink.jars, report=report)
    request = read_request(table, sink, settings, storage, Trigger.default())
    return _of_session(
        spark, lambda: sink.read_batch(spark, request), name, settings, timeout_s=timeout_s
    )


def _computed(
    definitions: Definitions, settings: Settings, view: str, timeout_s: float, report: Report
) -> SparkRows:
    from headwater.planning import make_plan
    from headwater.runtime.batch import frames_for

    plan = make_plan(definitions, settings, for_batch=True, report=report)
    sinks = {query.name: query.sink for query in plan.queries}
    frames = frames_for(plan.spark, plan.graph, settings, sinks)
    return _of_session(plan.spark, lambda: frames.view(view), view, settings, timeout_s=timeout_s)


def _of_session(
    spark: SparkSession,
    read: Callable[[], DataFrame],
    name: str,
    settings: Settings,
    *,
    timeout_s: float,
) -> SparkRows:
    def ask(question: str, rows: int) -> Any:
        return copied(
            spark, read, name, settings, question=question, rows=rows, timeout_s=timeout_s
        )

    return SparkRows(name, ask)


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


def data_of_process(
    record: RunRecord | None,
    name: str,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    rows: int | None = None,
) -> Any:
    """What a running pipeline reads of a table or view: SparkRows, or so many rows at once."""
    if record is None:
        raise NotRunning(f"table {name!r} lives in the memory of a running pipeline")
    if rows is not None:
        return _read_by(record, "arrow", name, timeout_s, rows=rows)

    def ask(question: str, rows: int) -> Any:
        return _read_by(record, "select", name, timeout_s, rows=rows, question=question)

    return SparkRows(name, ask)


def _read_by(record: RunRecord, command: str, name: str, timeout_s: float, **arguments: Any) -> Any:
    import pyarrow

    answer = control.ask(record, command, table=name, timeout_s=timeout_s, **arguments)
    said = " ".join(str(answer.get("found") or answer.get("error")).split())
    match answer.get("code"):
        case None:
            return pyarrow.ipc.open_stream(base64.b64decode(answer["arrow"])).read_all()
        case SqlTimeout.code:
            raise SqlTimeout(timeout_s)
        case SqlFailed.code:
            raise SqlFailed(said)
        case "BAD_REQUEST":
            raise PipelineUnreachable(record.pipeline, record.pid, said)
        case _:
            raise RowsUnreadable(name, said)
