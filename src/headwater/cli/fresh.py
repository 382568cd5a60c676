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
from headwater.runtime.claims import Claim
from headwater.runtime.late import late_name
from headwater.runtime.rejects import reported_by
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
        for name in names:
            _require_possible(graph.tables[name], files, storage, settings.folder)
        for name in names:
            told += _moved(graph.tables[name], files, storage, settings.folder)
        for beside in [*map(late_name, names), *_rejected_of(graph, names)]:
            moved = set_aside(files, storage, beside, is_managed=True)
            told += [f"{beside}: kept in {place}" for place in moved]
        return told
    finally:
        claim.let_go()


def _require_possible(table: Table, files: Files, storage: Storage, base: Path) -> None:
    """Rows that stay where they are must be replaced by those that are written again."""
    sink = table.into
    is_new = not files.exists(storage.checkpoint(table.name))
    if sink is None or is_new or _own_folder(table, base) is not None:
        return
    if sink.place(base, "") is None:
        # The terminal, the memory of a session, a function of the user's own.
        return
    if isinstance(sink, FileSink):
        reason = "Spark takes its first batches for those that the folder's manifest names"
        raise FreshImpossible(table.name, sink.describe(), reason)
    if not table.key and table.mode is not OutputMode.COMPLETE:
        reason = "its rows stay there, have no key, and would be written once more"
        raise FreshImpossible(table.name, sink.describe(), reason)


def _moved(table: Table, files: Files, storage: Storage, base: Path) -> list[str]:
    moved = set_aside(files, storage, table.name, is_managed=table.into is None)
    told = [f"{table.name}: kept in {place}" for place in moved]
    if table.into is None or not moved:
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
