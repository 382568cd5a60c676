"""`run --fresh`: checkpoints and the rows that belong to them, moved aside and kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.app import Application
from headwater.connectors.files import Files as FileSink
from headwater.connectors.interface import located
from headwater.definitions import OutputMode, Table
from headwater.errors import FreshImpossible, UnknownTable
from headwater.graph import Graph, resolve
from headwater.planning import make_plan
from headwater.runtime.claims import Claim
from headwater.runtime.late import late_name
from headwater.runtime.rejects import reported_by
from headwater.runtime.specification import is_managed
from headwater.runtime.storage import Files, Storage, set_aside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_afresh(application: Application, spark: SparkSession, tables: Sequence[str]) -> list[str]:
    """Moves the tables' checkpoints, rows, late and rejected rows aside; tells what it did.

    Refuses while the pipeline runs.
    """
    graph = resolve(application.pipeline.definitions())
    names = list(tables) or list(graph.tables)
    for name in names:
        if name not in graph.tables:
            raise UnknownTable(name, graph.tables)
    settings = application.settings
    storage = Storage(settings.storage_root, application.pipeline.name)
    files = Files(storage, spark)
    claim = Claim(spark, settings, application.pipeline.name)
    claim.take()
    try:
        told = []
        kept = [t for t in map(graph.tables.__getitem__, names) if _stays(t, settings.folder)]
        resumed = [t for t in kept if files.exists(storage.checkpoint(t.name))]
        if resumed:
            plan = make_plan(
                graph.definitions, settings, tables=[t.name for t in resumed], spark=spark
            )
            for query in plan.queries:
                require_replaced(query.table, query.mode)
        for name in names:
            told += _moved(graph.tables[name], files, storage, settings.folder)
        for beside in [*map(late_name, names), *_rejected_of(graph, names)]:
            moved = set_aside(files, storage, beside, is_managed=True)
            told += [f"{beside}: kept in {place}" for place in moved]
        return told
    finally:
        claim.let_go()


def _stays(table: Table, base: Path) -> bool:
    """Whether rows stay where they are: not in the terminal, the memory of a session or with a
    function of the user's own, and in no folder that can be moved."""
    sink = table.into
    if sink is None or is_managed(table) or _own_folder(table, base) is not None:
        return False
    return sink.place(base, "") is not None


def require_replaced(table: Table, mode: OutputMode) -> None:
    """Rows that stay must be replaced by those that are written again; raises FreshImpossible."""
    sink = table.into
    assert sink is not None
    if isinstance(sink, FileSink):
        reason = "Spark takes its first batches for those that the folder's manifest names"
        raise FreshImpossible(table.name, sink.describe(), reason)
    if mode is OutputMode.APPEND:
        reason = "its rows are appended: those that are there would be written once more"
        raise FreshImpossible(table.name, sink.describe(), reason)


def _moved(table: Table, files: Files, storage: Storage, base: Path) -> list[str]:
    moved = set_aside(files, storage, table.name, is_managed=is_managed(table))
    told = [f"{table.name}: kept in {place}" for place in moved]
    if table.into is None or is_managed(table) or not moved:
        return told
    path = _own_folder(table, base)
    if path is None:
        return [*told, f"{table.name}: rows in {table.into.describe()} stay and are written again"]
    if path.exists():
        target = str(Path(moved[0]).parent / "table")
        files.move(str(path), target)
        told.append(f"{table.name}: kept in {target}")
    return told


def _own_folder(table: Table, base: Path) -> Path | None:
    """The local folder of a file or Delta sink. A file sink's manifest counts batches: left in
    place it would take the first batches of a fresh checkpoint for known and skip them."""
    sink = table.into
    assert sink is not None
    place = None
    if isinstance(sink, FileSink):
        place = located(sink.path, base)
    elif sink.system == "delta":
        place = sink.place(base, "")
    return Path(place) if place is not None and "://" not in place else None


def _rejected_of(graph: Graph, tables: Sequence[str]) -> list[str]:
    return [f"{source}__rejected" for table in tables for source in reported_by(graph, table)]
