"""The same definitions over the bounded input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headwater.connectors.interface import Connector
from headwater.errors import CheckpointExists
from headwater.graph import Graph
from headwater.runtime.frames import Frames, is_judged
from headwater.runtime.late import late_name
from headwater.runtime.rejects import reporter_of, with_batch
from headwater.runtime.specification import QuerySpec, write_request
from headwater.runtime.storage import Files, Storage, set_aside
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frames_of(
    spark: SparkSession, graph: Graph, settings: Settings, sinks: Mapping[str, Connector]
) -> dict[str, DataFrame]:
    """Every view, table and `<source>__rejected` as a bounded DataFrame; writes nothing."""
    frames = frames_for(spark, graph, settings, sinks)
    rejected = {
        f"{source.name}__rejected": frames.rejected_batch(source)
        for source in graph.definitions.sources.values()
        if is_judged(source)
    }
    return frames.batch() | rejected


def replace_tables(
    spark: SparkSession,
    graph: Graph,
    settings: Settings,
    specs: Sequence[QuerySpec],
    *,
    replaces_streams: bool,
) -> list[str]:
    """Writes every table's batch result in place of its content; returns their names.

    A table that a stream has written is refused, because its checkpoint would go on from where
    the stream was, unless `replaces_streams`: then the checkpoint is moved aside and kept.
    """
    storage = Storage(settings.storage_root, graph.definitions.pipeline)
    files = Files(storage, spark)
    streamed = [s for s in specs if files.exists(storage.checkpoint(s.name))]
    if streamed and not replaces_streams:
        raise CheckpointExists([s.name for s in streamed], where=streamed[0].table.location)
    frames = frames_for(spark, graph, settings, {spec.name: spec.sink for spec in specs})
    built = frames.batch()
    for spec in specs:
        spec.sink.check_replaceable(write_request(spec, settings, storage))
    for spec in specs:
        spec.sink.write_batch(built[spec.name], write_request(spec, settings, storage))
        set_aside(files, storage, spec.name, is_managed=False)
        # A batch counts every row: what was late for the stream is so no longer.
        set_aside(files, storage, late_name(spec.name), is_managed=True)
        files.write(storage.batch_mark(spec.name), "")
    names = {spec.name for spec in specs}
    for source in {s.name: s for name in names for s in graph.sources_of(name)}.values():
        reporter = reporter_of(graph, source.name)
        assert reporter is not None
        is_streamed = reporter not in names and files.exists(storage.checkpoint(reporter))
        # What the stream of a table that is left alone has rejected stays with it.
        if is_judged(source) and not is_streamed:
            path = storage.table(f"{source.name}__rejected")
            rejected = with_batch(frames.rejected_batch(source), None)
            writer = rejected.write.format("delta").mode("overwrite")
            writer.option("overwriteSchema", "true").save(path)
    return [spec.name for spec in specs]


def frames_for(
    spark: SparkSession, graph: Graph, settings: Settings, sinks: Mapping[str, Connector]
) -> Frames:
    """Builds DataFrames over the bounded input."""
    storage = Storage(settings.storage_root, graph.definitions.pipeline)
    return Frames(spark, graph, settings, storage, sinks)
