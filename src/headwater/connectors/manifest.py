"""Which files of a folder that a stream writes count: those in Spark's own manifest.

A task that ran twice, or a batch that a crash cut off, leaves files which no committed batch names.
Spark's reader knows them by the manifest; others must be told.
"""

from __future__ import annotations

import json
import os
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

MANIFEST = "_spark_metadata"
_SPARKS = re.compile(r"part-\d{5}-[0-9a-f]{8}-[0-9a-f-]{27}")


def committed_files(folder: Path) -> list[Path]:
    """A folder's data files, oldest first; those of its manifest where a stream wrote it."""
    if (folder / MANIFEST).is_dir():
        return [file for file in _listed(folder / MANIFEST) if file.exists()]
    files = [
        file
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith(("_", "."))
    ]
    return sorted(files, key=lambda file: file.stat().st_mtime)


def last_batch(folder: Path) -> int:
    """The last batch that a stream wrote into a folder; -1 where none did."""
    logs = (folder / MANIFEST).glob("[0-9]*")
    return max((int(log.name.removesuffix(".compact")) for log in logs), default=-1)


def remove_orphans(folder: Path) -> list[Path]:
    """Removes the files that Spark wrote and no committed batch names; nothing may write there
    meanwhile. Files of other origin stay: those that are older than the manifest, and those of
    tables below this one."""
    manifest = folder / MANIFEST
    if not manifest.is_dir():
        return []
    # The folder is there before the first batch writes, its first line when that has ended.
    times = [log.stat().st_mtime for log in manifest.iterdir() if log.name[0].isdigit()]
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
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    return orphans


def _own_files(folder: Path) -> Iterator[Path]:
    """The files of a folder and its partitions, not those of tables below it."""
    for place, folders, names in os.walk(folder):
        is_another = place != str(folder) and {MANIFEST, "_delta_log"} & set(folders)
        if is_another:
            folders.clear()
        else:
            yield from (Path(place) / name for name in names)


def _listed(manifest: Path) -> list[Path]:
    """One file per batch, of which every tenth sums up the others."""
    logs = {int(log.name.split(".")[0]): log for log in manifest.iterdir() if log.name[0].isdigit()}
    compact = max((n for n, log in logs.items() if log.suffix == ".compact"), default=-1)
    files: list[Path] = []
    for number in sorted(n for n in logs if n >= compact):
        for line in logs[number].read_text().splitlines()[1:]:
            entry = json.loads(line)
            files.append(Path(urllib.parse.unquote(urllib.parse.urlparse(entry["path"]).path)))
    return files
