"""What a pipeline is, as a file beside its history: for readers that do not have its code.

<project>/.headwater/<pipeline>/history/about.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headwater.connectors.files import Files
from headwater.connectors.interface import Connector, located
from headwater.definitions import Definition, Lookup, Source, Table, kind_of
from headwater.graph import Graph
from headwater.runtime.specification import QuerySpec
from headwater.runtime.storage import Storage
from headwater.settings import Settings

FILE = "about.json"


def write_about(
    folder: Path,
    graph: Graph,
    specs: Sequence[QuerySpec],
    settings: Settings,
    app: str | None,
    *,
    has_changelog: bool,
) -> None:
    """Replaces the description as a whole; `has_changelog` is about the session's state stores."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f"{FILE}.new"
    known = about(graph, specs, settings, app) | {"has_changelog": has_changelog}
    beside.write_text(json.dumps(known))
    beside.replace(folder / FILE)


def read_about(folder: Path) -> dict[str, Any] | None:
    """None where the pipeline never ran, or the file was cut short."""
    try:
        found = json.loads((folder / FILE).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def about(
    graph: Graph, specs: Sequence[QuerySpec], settings: Settings, app: str | None
) -> dict[str, Any]:
    """The graph, every query's choices and where its rows are, as plain values."""
    by_name = {spec.name: spec for spec in specs}
    storage = Storage(settings.storage_root, graph.definitions.pipeline)
    return {
        "pipeline": graph.definitions.pipeline,
        "app": app,
        "profile": settings.profile,
        "master": settings.master,
        "cores": settings.cores,
        "shuffle_partitions": settings.shuffle_partitions or settings.cores,
        "storage": settings.storage_root,
        "nodes": [
            _node(graph, definition, by_name.get(definition.name), settings, storage)
            for definition in graph.definitions.by_name.values()
        ],
    }


def _node(
    graph: Graph,
    definition: Definition,
    spec: QuerySpec | None,
    settings: Settings,
    storage: Storage,
) -> dict[str, Any]:
    node: dict[str, Any] = {
        "name": definition.name,
        "kind": kind_of(definition),
        "reads": sorted({edge.read for edge in graph.inputs(definition.name)}),
        "where": str(definition.location),
    }
    if isinstance(definition, Source | Lookup):
        node["detail"] = definition.connector.describe()
        node["system"] = definition.connector.system
    if isinstance(definition, Source):
        node["watermark"] = definition.watermark
        node["event_time"] = definition.event_time
        node["limit"] = str(definition.max_per_batch or "") or None
        node["min_partitions"] = _min_partitions(definition.connector)
    if isinstance(definition, Table):
        node["place"] = place_of(definition.name, definition.into, settings, storage)
        node["unbounded_state"] = definition.unbounded_state
    if spec is not None:
        node |= {
            "detail": "managed Delta table" if spec.is_managed else spec.sink.describe(),
            "system": spec.sink.system,
            "mode": spec.mode.value,
            "trigger": str(spec.trigger),
            "guarantee": spec.guarantee.value,
            "late": str(spec.late) if spec.late else None,
            "is_async_progress": spec.is_async_progress,
            "python": list(spec.python),
        }
    return node


def _min_partitions(connector: Connector) -> int:
    """Into how many tasks a Kafka source is split at least; 0 where nothing is said."""
    options: Mapping[str, str] = getattr(connector, "options", {})
    asked = {name.lower(): value for name, value in options.items()}.get("minpartitions", "")
    return int(asked) if connector.system == "kafka" and asked.isdecimal() else 0


def place_of(
    table: str, sink: Connector | None, settings: Settings, storage: Storage
) -> dict[str, Any]:
    """Where the rows of a table are, for readers without Spark; `kind` is `spark` where it takes
    Spark, and `none` where nothing is kept."""
    if sink is None:
        return {"kind": "delta", "path": storage.table(table)}
    if sink.system == "delta":
        return {"kind": "delta", "path": sink.place(settings.folder, "") or storage.table(table)}
    if isinstance(sink, Files) and "://" not in sink.path:
        return {
            "kind": "files",
            "path": located(sink.path, settings.folder),
            "format": sink.system,
            "has_header": sink.options.get("header", "true") == "true",
        }
    if sink.system == "memory":
        return {"kind": "memory"}
    return {"kind": "spark" if sink.reads_batches else "none"}
