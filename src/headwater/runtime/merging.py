"""Late rows counted after all: the windows that they missed, computed again from the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.connectors.delta import Delta
from headwater.connectors.interface import OffsetRange
from headwater.definitions import Table
from headwater.errors import LateMergeImpossible
from headwater.event_time.entries import entries_of, is_stateful
from headwater.event_time.late import MERGED, WINDOW, only_windows, watched_entries
from headwater.event_time.plans import analyzed, plan_nodes
from headwater.graph import Graph
from headwater.runtime.frames import BuiltTable, Frames
from headwater.runtime.late import late_name
from headwater.runtime.offsets import OffsetLog
from headwater.runtime.rejects import source_index
from headwater.runtime.specification import QuerySpec, write_request
from headwater.runtime.storage import Files, Storage, last_number
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did: late rows that count now, windows that were corrected, rows written."""

    table: str
    late_rows: int
    windows: int
    rows: int


def merge_late(
    spark: SparkSession, graph: Graph, settings: Settings, spec: QuerySpec
) -> Merged | None:
    """Corrects a table by its late rows; None where it has none that are not counted yet.

    The windows are computed again from the part of the input that the stream has processed, and
    written by the table's key. Repeating it changes nothing. Raises LateMergeImpossible.
    """
    storage = Storage(settings.storage_root, graph.definitions.pipeline)
    files = Files(storage, spark)
    path = storage.table(late_name(spec.name))
    if not files.exists(path):
        return None
    late = spark.read.format("delta").load(path).where(f"NOT {MERGED}")
    count = late.count()
    if count == 0:
        return None
    frames = Frames(spark, graph, settings, storage, {spec.name: spec.sink}, {spec.name: spec.mode})
    built = frames.stream(spec.name, spec.trigger)
    stream = built.frame
    _require_mergeable(graph.tables[spec.name], spec, stream)
    log = OffsetLog(files, storage.checkpoint(spec.name))
    batch = frames.consumed(spec.name, consumed_parts(graph, spec.name, built, log, files))
    windows = late.select(WINDOW).distinct().localCheckpoint()
    corrected = only_windows(batch, watched_entries(stream)[0], windows).localCheckpoint()
    assert isinstance(spec.sink, Delta)
    spec.sink.merge(corrected, write_request(spec, settings, storage))
    spark.sql(f"UPDATE delta.`{path}` SET {MERGED} = true WHERE NOT {MERGED}")
    return Merged(spec.name, count, windows.count(), corrected.count())


def _require_mergeable(table: Table, spec: QuerySpec, stream: DataFrame) -> None:
    problem, remedy = None, "compute the table again: headwater run --batch --replace"
    entries = watched_entries(stream)
    operators = [node for node in plan_nodes(analyzed(stream)) if is_stateful(node)]
    if len(operators) > 1 or len(entries_of(stream)) > 1:
        problem = "its rows pass several operators with state"
    elif entries[0].window is None:
        problem = "it has no time windows that could be computed again on their own"
    elif not isinstance(spec.sink, Delta):
        problem = f"{spec.sink.describe()} cannot take a correction"
    elif not table.key:
        problem = "it has no key by which a corrected row finds the old one"
        remedy = "name the columns that tell its rows apart: key=[…]"
    elif spec.late is not None and spec.late.has_panes:
        problem = "its rows are panes, which are never taken back"
    if problem:
        raise LateMergeImpossible(table.name, problem, remedy, where=table.location)


def consumed_parts(
    graph: Graph, table: str, built: BuiltTable, log: OffsetLog, files: Files
) -> dict[str, OffsetRange]:
    """What the stream has processed of each source."""
    committed = last_number(files, f"{log.checkpoint}/commits")
    entry = None if committed is None else log.entry(committed)
    assert entry is not None
    found = {}
    for source in graph.sources_of(table):
        judged = built.judged_sources.get(source.name)
        index = None if judged is None else source_index(built.frame, judged)
        end = None if index is None else entry.offsets[index]
        if end is not None:
            place = f"{log.checkpoint}/sources/{index}"
            found[source.name] = OffsetRange(None, end, place, entry.timestamp_ms)
    return found
