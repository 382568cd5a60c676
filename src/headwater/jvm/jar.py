"""The classes of our own in the JVM: local files without a process for each of them, lags, ages
and numbers of rows as they pass, what tasks tell their driver, appends to Delta that are known to
be new, the header by which records of Kafka are known again and the sink that writes them,
PostgreSQL's COPY, and models and versions of rows that change from batch to batch.

The jar beside this file is made from `java/` by `python tools/build_jar.py`.
"""

from __future__ import annotations

import importlib.resources
import os
from hashlib import sha256
from pathlib import Path

from headwater.local.cache import cache_folder

LOCAL_FILES = "io.headwater.LocalFiles"
LAGS = "io.headwater.Lags"
AGES = "io.headwater.Ages"
HANDED = "io.headwater.Handed"
TOLD = "io.headwater.Told"
APPEND = "io.headwater.Append"
LABEL = "io.headwater.Label"
ONCE_SINK = "io.headwater.OnceSink"
COPY = "io.headwater.Copy"
SCORER = "io.headwater.Scorer"
VERSIONS = "io.headwater.Versions"


def headwater_jar() -> Path:
    """The jar as a file of the cache: an archive of classes fits only jars that stay as they are,
    and an installation may be renewed."""
    content = importlib.resources.files("headwater.jvm").joinpath("headwater.jar").read_bytes()
    folder = cache_folder() / "jars"
    jar = folder / f"headwater-{sha256(content).hexdigest()[:12]}.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = jar.with_name(f".{jar.name}.{os.getpid()}")
        draft.write_bytes(content)
        draft.replace(jar)
    return jar
