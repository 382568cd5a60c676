"""A picture of Spark's classes, made once, from which every later JVM starts faster.

A JVM reads, checks and lays out some fifteen thousand classes before Spark runs its first batch.
Java can write them to a file as they lie in memory when a program ends, and map that file in at the
next start (class data sharing). The file fits one Java and one class path; where it does not fit,
Java starts as if it were not there.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from headwater.events import Report, step
from headwater.local.cache import cache_folder
from headwater.local.java import JavaRuntime

_SWITCH = "HEADWATER_CLASS_ARCHIVE"
"""`off`: neither made nor used."""
_WRITTEN_BY = "HEADWATER_CLASS_ARCHIVE_INTO"
_TRAINING_S = 150.0
"""Half a minute as a rule. A start that waits longer has lost more than later ones gain."""
_UNUSED_S = 30 * 24 * 3600


def archive_options(java: JavaRuntime, jars: Sequence[Path], report: Report) -> str:
    """The options for a JVM with these jars before Spark's own; makes the archive at the first call
    for them, and never again where that failed."""
    target = os.environ.get(_WRITTEN_BY)
    if target is not None:
        return quoted(f"-XX:ArchiveClassesAtExit={target}")
    if os.environ.get(_SWITCH) == "off":
        return ""
    archive = _place(java, jars)
    if not archive.exists():
        try:
            _make(archive, report)
        except OSError:
            # A cache that cannot be written to.
            return ""
    if not archive.stat().st_size:
        return ""
    with contextlib.suppress(OSError):
        archive.touch()
    return f"{quoted(f'-XX:SharedArchiveFile={archive}')} -Xlog:cds=off -Xlog:cds+dynamic=off"


def quoted(option: str) -> str:
    """An option as one word: Spark's launcher splits Java's options at blanks.

    >>> quoted("-Dfolder=/my project"), quoted("-Xmx1g")
    ('"-Dfolder=/my project"', '-Xmx1g')
    """
    return f'"{option}"' if " " in option else option


def _place(java: JavaRuntime, jars: Sequence[Path]) -> Path:
    release = java.home / "release"
    about = [
        str(java.home),
        release.read_text() if release.exists() else str(java.version),
        importlib.metadata.version("pyspark"),
        str(Path(sys.prefix).resolve()),
        *map(str, jars),
    ]
    key = sha256("\n".join(about).encode()).hexdigest()[:16]
    return cache_folder() / "classes" / f"{key}.jsa"


def _make(archive: Path, report: Report) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with open(archive.parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return
        with (
            step("Preparing Spark's classes for quick starts (once)", report),
            tempfile.TemporaryDirectory(dir=archive.parent, prefix=".making-") as folder,
        ):
            draft = Path(folder) / "classes.jsa"
            _train(draft, Path(folder))
            if not draft.exists():
                # An empty file says that this Java cannot do it; the log beside it says why.
                (Path(folder) / "log").replace(archive.with_suffix(".log"))
                draft.touch()
            draft.replace(archive)
        _remove_unused(archive.parent)


def _remove_unused(folder: Path) -> None:
    """Archives of environments that are gone: each is a fifth of a gigabyte."""
    for archive in folder.glob("*.jsa"):
        if time.time() - archive.stat().st_mtime > _UNUSED_S:
            archive.unlink()


def _train(draft: Path, folder: Path) -> None:
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater.runtime.training", str(folder)],
            env={**os.environ, _WRITTEN_BY: str(draft)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        is_whole = False
        try:
            is_whole = process.wait(timeout=_TRAINING_S) == 0
        except subprocess.TimeoutExpired:
            log.write(b"\nended: it took longer than %d s\n" % _TRAINING_S)
        finally:
            if not is_whole:
                # With its JVM, which may still write the draft.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                draft.unlink(missing_ok=True)
