"""A table computed anew from the beginning of its input, beside the old one, which it replaces.

<storage>/<pipeline>/rebuild/tables/<table>        the new version while it is made
<storage>/<pipeline>/rebuild/checkpoints/<table>
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.definitions import OutputMode, Table, Trigger
from headwater.errors import RebuildImpossible
from headwater.events import Report
from headwater.graph import Graph
from headwater.runtime.late import late_name
from headwater.runtime.queries import RunningQueries
from headwater.runtime.rejects import reported_by
from headwater.runtime.specification import QuerySpec, read_request
from headwater.runtime.storage import Files, Storage, set_aside
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class RebuildStorage(Storage):
    """As the pipeline's own storage, but for the tables that are made anew."""

    rebuilt: frozenset[str] = frozenset()

    @property
    def beside(self) -> str:
        return f"{self.root}/{self.pipeline}/rebuild"

    def table(self, name: str) -> str:
        is_new = name in self.rebuilt
        return f"{self.beside}/tables/{name}" if is_new else Storage.table(self, name)

    def checkpoint(self, table: str) -> str:
        is_new = table in self.rebuilt
        return f"{self.beside}/checkpoints/{table}" if is_new else Storage.checkpoint(self, table)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A table that was replaced, and where the old one is kept."""

    table: str
    last_batch: int | None
    kept: tuple[str, ...]


def tables_to_rebuild(graph: Graph, table: str, modes: Mapping[str, OutputMode]) -> list[str]:
    """The table, and those that read it as a stream: a stream goes on in one version of a table
    only."""
    found = {table}
    for name in graph.tables:
        read = [d.name for d in graph.reads_directly(name) if isinstance(d, Table)]
        if any(r in found and modes[r] is OutputMode.APPEND for r in read):
            found.add(name)
    return [name for name in graph.tables if name in found]


def rebuild(
    spark: SparkSession,
    graph: Graph,
    settings: Settings,
    specs: Sequence[QuerySpec],
    *,
    upstream: Sequence[QuerySpec] = (),
    accepts_gaps: bool = False,
    before_switch: Callable[[], None] = lambda: None,
    report: Report,
) -> list[Rebuilt]:
    """Replaces the tables of `specs`; the caller sees to it that nobody else runs the pipeline.

    Nothing of the old tables is touched before the new ones are complete and `before_switch` has
    returned. Raises RebuildImpossible, and what a query failed with.
    """
    names = [spec.name for spec in specs]
    beside = [side for name in names for side in (late_name(name), *_rejected(graph, name))]
    storage = RebuildStorage(
        settings.storage_root, graph.definitions.pipeline, frozenset([*names, *beside])
    )
    for spec in specs:
        _require_possible(graph, settings, storage, spec, accepts_gaps=accepts_gaps)
    files = Files(storage, spark)
    files.remove(storage.beside)
    last: dict[str, int | None] = {}
    known = [*upstream]
    # One after the other: each reads the whole of the one before.
    for spec in specs:
        query = spec.with_trigger(Trigger.available_now())
        run = RunningQueries(
            spark, graph, [query], settings, report, upstream=known, measures=False, storage=storage
        )
        run.start()
        try:
            run.await_termination()
        finally:
            run.stop()
        run.raise_failure()
        last[spec.name] = run[spec.name].last_batch
        known.append(replace(query))
    before_switch()
    own = Storage(settings.storage_root, graph.definitions.pipeline)
    kept = {name: _switched(files, own, storage, name) for name in [*beside, *names]}
    files.remove(storage.beside)
    return [Rebuilt(name, last[name], tuple(kept[name])) for name in names]


def _switched(files: Files, own: Storage, new: RebuildStorage, table: str) -> list[str]:
    """Where the old one is kept. The new checkpoint comes last: a crash before it leaves rows
    without a checkpoint, which the next start refuses and the next rebuild replaces."""
    if not files.exists(new.table(table)) and not files.exists(own.table(table)):
        return []
    kept = set_aside(files, own, table, is_managed=True)
    for origin, target in (
        (new.table(table), own.table(table)),
        (new.checkpoint(table), own.checkpoint(table)),
    ):
        if files.exists(origin):
            files.move(origin, target)
    return kept


def _require_possible(
    graph: Graph,
    settings: Settings,
    storage: Storage,
    spec: QuerySpec,
    *,
    accepts_gaps: bool,
) -> None:
    def refuse(found: str, remedy: str) -> RebuildImpossible:
        return RebuildImpossible(spec.name, found, remedy, where=spec.table.location)

    if not spec.is_managed:
        found = f"its rows are in {spec.sink.describe()}, which has no second version beside it"
        if spec.mode is OutputMode.APPEND:
            raise refuse(found, f"empty the sink, then headwater run --fresh {spec.name}")
        raise refuse(
            found, f"headwater run --fresh {spec.name} replaces rows by key or all at once"
        )
    for source in graph.sources_of(spec.name):
        request = read_request(source, source.connector, settings, storage, Trigger.default())
        if not source.connector.is_replayable or not source.connector.reads_beginning:
            found = f"source {source.name} is not read from the beginning of its input"
            raise refuse(found, "take a source that can be, such as a topic from earliest")
        gaps = [] if accepts_gaps else source.connector.gone_at_start(request)
        if gaps:
            found = f"source {source.name} lost {'; '.join(map(str, gaps))}"
            raise refuse(found, "--accept-gaps leaves out what the old table may have of it")


def _rejected(graph: Graph, table: str) -> list[str]:
    return [f"{source}__rejected" for source in reported_by(graph, table)]
