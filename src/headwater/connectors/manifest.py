"""Which files of a folder that a stream writes count: those in Spark's own manifest.

A task that ran twice, or a batch that a crash cut off, leaves files which no committed batch names.
Spark's reader knows them by the manifest; others must be told.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.connectors.far_paths import FarPath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFEST = "_spark_metadata"
_LOGS = (MANIFEST, "_delta_log")
"""A folder with one of these is a table."""
_SPARKS = re.compile(r"part-\d{5}-[0-9a-f]{8}-[0-9a-f-]{27}")

Place = TypeVar("Place", Path, FarPath)
"""On this machine, or where Spark keeps files elsewhere."""


def folder_at(spark: SparkSession, path: str) -> Any:
    """A `Path` or a `FarPath`."""
    return FarPath.of(spark, path) if "://" in path else Path(path)


def committed_files(folder: Place) -> list[Place]:
    """A folder's data files, oldest first; those of its manifest where a stream wrote it."""
    if (folder / MANIFEST).is_dir():
        return [file for file in _listed(folder / MANIFEST) if file.exists()]
    files = [file for file in _all_files(folder) if not file.name.startswith(("_", "."))]
    return sorted(files, key=lambda file: float(file.stat().st_mtime))


def last_batch(folder: Place) -> int:
    """The last batch that a stream wrote into a folder; -1 where none did."""
    return max(_logs(folder / MANIFEST), default=-1)


def remove_orphans(folder: Place) -> list[Place]:
    """Removes the files that Spark wrote and no committed batch names; nothing may write there
    meanwhile. Files of other origin stay: those that are older than the manifest, and those of
    tables below this one."""
    manifest = folder / MANIFEST
    if not manifest.is_dir():
        return []
    # The folder is there before the first batch writes, its first line when that has ended.
    times = [log.stat().st_mtime for log in _logs(manifest).values()]
    begun = min(times, default=manifest.stat().st_mtime)
    listed = set(_listed(manifest))
    orphans = [
        file
        for file in _own_files(folder)
        if _SPARKS.match(file.name)
        and file not in listed
        and file.resolve() not in listed
        and file.stat().st_mtime >= begun
    ]
    for file in orphans:
        file.unlink(missing_ok=True)
        if isinstance(file, Path):
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    return orphans


def _own_files(folder: Place) -> Iterator[Place]:
    """The files of a folder and its partitions, not those of tables below it."""
    inner = []
    for one in folder.iterdir():
        if not one.is_dir():
            yield one
        elif one.name not in _LOGS and not one.is_symlink():
            inner.append(one)
    for one in inner:
        if not any((one / log).is_dir() for log in _LOGS):
            yield from _own_files(one)


def _all_files(folder: Place) -> Iterator[Place]:
    for one in folder.iterdir() if folder.is_dir() else ():
        if not one.is_dir():
            yield one
        elif not one.is_symlink():
            yield from _all_files(one)


def _logs(manifest: Place) -> dict[int, Place]:
    """One file per batch, of which every tenth sums up the others; none where there is none."""
    if not manifest.is_dir():
        return {}
    logs = [log for log in manifest.iterdir() if log.name[0].isdigit()]
    return {int(log.name.split(".")[0]): log for log in logs}


def _listed(manifest: Place) -> list[Place]:
    logs = _logs(manifest)
    compact = max((n for n, log in logs.items() if log.suffix == ".compact"), default=-1)
    files: list[Place] = []
    for number in sorted(n for n in logs if n >= compact):
        for line in logs[number].read_text().splitlines()[1:]:
            files.append(_named(manifest, str(json.loads(line)["path"])))
    return files


def _named(beside: Place, uri: str) -> Place:
    """The file that Spark wrote down."""
    if isinstance(beside, Path):
        return Path(urllib.parse.unquote(urllib.parse.urlparse(uri).path))
    return beside.at(uri)
