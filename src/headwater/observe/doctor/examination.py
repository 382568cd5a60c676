"""Gathers what rules look at, from the files of one pipeline; needs neither Spark nor its code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headwater.observe.doctor.cases import Case, Measured, Recent, StoredFiles, cases
from headwater.runtime.about import read_about
from headwater.runtime.history import history_folder, read_history
from headwater.runtime.lateness import measured
from headwater.runtime.storage import Files, Storage


def examine(local_folder: Path, pipeline: str) -> list[Case]:
    """A case per table of the pipeline's last run; none where there is no history."""
    folder = history_folder(local_folder, pipeline)
    recent = Recent()
    for record in read_history(folder):
        recent.add(record)
    return cases_of(recent, read_about(folder))


def cases_of(recent: Recent, about: Mapping[str, Any] | None) -> list[Case]:
    """With what the storage tells beside the history."""
    return cases(
        recent,
        about,
        lateness={found.source: found for found in _lateness(about or {})},
        files=dict(_files(about or {})),
        memory_bytes=_memory_bytes(),
    )


def _lateness(about: Mapping[str, Any]) -> Iterator[Measured]:
    storage = Storage(str(about.get("storage", "")), str(about.get("pipeline", "")))
    if not storage.root or not storage.is_local:
        return
    for node in about["nodes"]:
        if node["kind"] != "source" or not node.get("watermark"):
            continue
        found = measured(Files(storage), storage, node["name"])
        if found is not None:
            yield Measured(node["name"], found.rows, node["watermark"], found.p999_ms)


def _files(about: Mapping[str, Any]) -> Iterator[tuple[str, StoredFiles]]:
    for node in about.get("nodes", []):
        place = node.get("place") or {}
        if place.get("kind") == "delta" and "://" not in place["path"]:
            found = _delta_files(place["path"])
            if found is not None:
                yield node["name"], found


def _delta_files(path: str) -> StoredFiles | None:
    if not os.path.isdir(f"{path}/_delta_log"):
        return None
    import pyarrow
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        actions = pyarrow.table(DeltaTable(path).get_add_actions(flatten=True))
    except DeltaError:
        return None
    sizes = actions.column("size_bytes").to_pylist()
    return StoredFiles(len(sizes), sum(sizes))


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
