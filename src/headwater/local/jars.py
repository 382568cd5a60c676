"""Connector and broker jars: pinned, fetched once with the Ivy that PySpark ships, checked."""

from __future__ import annotations

import importlib.resources
import importlib.util
import os
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from hashlib import file_digest
from pathlib import Path

from headwater.errors import JarCorrupt, JarsUnavailable
from headwater.events import Report, StepFinished, StepStarted, silent
from headwater.local.cache import alone_in, cache_folder
from headwater.local.java import find_java
from headwater.local.trust import trust_options


class JarSet(Enum):
    """Jars that are used together; the value is the section in `jars.lock`."""

    KAFKA = "kafka"
    DELTA = "delta"
    POSTGRES = "postgres"
    MARIADB = "mariadb"
    KAFKA_BROKER = "kafka_broker"
    HDFS = "hdfs"


@dataclass(frozen=True, slots=True)
class Jar:
    group: str
    artifact: str
    version: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


@cache
def locked_jars() -> dict[JarSet, tuple[Jar, ...]]:
    """What `jars.lock` pins."""
    text = importlib.resources.files("headwater.local").joinpath("jars.lock").read_text("utf-8")
    jars: dict[JarSet, list[Jar]] = {}
    section: list[Jar] = []
    for line in text.splitlines():
        if line.startswith("["):
            section = jars.setdefault(JarSet(line.strip("[]")), [])
        elif line and not line.startswith("#"):
            coordinates, sha256, size = line.split()
            group, artifact, version = coordinates.split(":")
            section.append(Jar(group, artifact, version, sha256, int(size)))
    return {name: tuple(pinned) for name, pinned in jars.items()}


def jar_paths(sets: Iterable[JarSet], *, report: Report = silent) -> list[Path]:
    """The jars of `sets` as files, fetched first where the cache lacks them.

    With all jars in the cache it costs one `stat` per jar: no JVM, no network. Jars that arrived
    before a failure are kept. Raises JarsUnavailable, JarCorrupt, JavaMissing.
    """
    wanted = list(dict.fromkeys(jar for name in sets for jar in locked_jars()[name]))
    folder = cache_folder() / "jars"
    if _missing(wanted, folder):
        with alone_in(folder):
            missing = _missing(wanted, folder)
            if missing:
                _fetch(missing, folder, report)
    return [folder / jar.file_name for jar in wanted]


def _missing(jars: list[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not _is_whole(folder / jar.file_name, jar)]


def _is_whole(file: Path, jar: Jar) -> bool:
    try:
        return file.stat().st_size == jar.size
    except OSError:
        return False


def _fetch(missing: list[Jar], folder: Path, report: Report) -> None:
    size_mb = sum(jar.size for jar in missing) / 1e6
    step = f"Fetching {len(missing)} jars ({size_mb:.0f} MB)"
    report(StepStarted(step))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as draft:
        reason = _run_ivy(missing, Path(draft))
        arrived = {file.name: file for file in Path(draft).rglob("*.jar")}
        for jar in missing:
            if jar.file_name in arrived:
                _keep(arrived[jar.file_name], jar, folder)
    absent = _missing(missing, folder)
    if absent:
        raise JarsUnavailable(
            missing=[jar.file_name for jar in absent], cache=str(folder), reason=reason
        )
    report(StepFinished(step, time.monotonic() - began))


def _keep(file: Path, jar: Jar, folder: Path) -> None:
    with open(file, "rb") as stream:
        found = file_digest(stream, "sha256").hexdigest()
        os.fsync(stream.fileno())
    if found != jar.sha256:
        raise JarCorrupt(jar=jar.file_name, found_sha256=found, expected_sha256=jar.sha256)
    file.replace(folder / jar.file_name)


def _run_ivy(jars: list[Jar], draft: Path) -> str:
    """Let Ivy download into `draft`; the last thing it complained about, for an error."""
    (draft / "ivy.xml").write_text(_ivy_module(jars), encoding="utf-8")
    (draft / "settings.xml").write_text(_IVY_SETTINGS, encoding="utf-8")
    settings = os.environ.get("HEADWATER_IVY_SETTINGS", str(draft / "settings.xml"))
    java = find_java()
    command = [str(java.executable), "-Xmx256m", "-cp", f"{pyspark_jars()}/*"]
    if java.is_packaged:
        command += trust_options(draft / "trusted.jks")
    command += ["org.apache.ivy.Main", "-warn", "-settings", settings]
    command += ["-ivy", str(draft / "ivy.xml"), "-cache", str(draft / "cache")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    complaints = (run.stdout + run.stderr).partition(":::: ERRORS")[2].split("\n\n")[0].strip()
    return complaints.splitlines()[0].strip() if complaints else f"Ivy ended: {run.returncode}"


def pyspark_jars() -> Path:
    """The folder of the jars that PySpark brings."""
    # Found without importing pyspark, which takes a quarter of a second.
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("pyspark is not installed; pip install headwater brings it")
    return Path(package.origin).parent / "jars"


# Without a root the resolver asks Ivy's own default, Maven Central. POM files and SHA-1 sums are
# left out: every jar is pinned and checked by SHA-256 here, and 46 jars take a third of the time.
_IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="public"/>
  <property name="ivy.checksums" value=""/>
  <resolvers><ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


def _ivy_module(jars: list[Jar]) -> str:
    dependencies = "\n".join(
        f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}"'
        ' transitive="false" conf="default->default"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="headwater" module="jars"/>\n'
        '<configurations><conf name="default"/></configurations>\n'
        f"<dependencies>\n{dependencies}\n</dependencies>\n"
        # Two sets may pin one artifact in two versions; Ivy would drop the older.
        '<conflicts><manager name="all"/></conflicts></ivy-module>\n'
    )
