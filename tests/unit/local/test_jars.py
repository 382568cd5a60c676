from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from headwater.errors import JarCorrupt, JarsUnavailable
from headwater.events import Event
from headwater.local import jars
from headwater.local.jars import Jar, JarSet, jar_paths, locked_jars

CONTENT = b"the content of a jar"


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "jars"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def two_jars(monkeypatch: pytest.MonkeyPatch) -> list[Jar]:
    digest = sha256(CONTENT).hexdigest()
    pinned = [Jar("org.example", name, "1.0", digest, len(CONTENT)) for name in ("one", "two")]
    monkeypatch.setattr(jars, "locked_jars", lambda: {JarSet.DELTA: tuple(pinned)})
    return pinned


def ivy_delivers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, bytes]) -> None:
    """A `java` that leaves `files` in Ivy's cache folder, as a download would."""
    shop = tmp_path / "shop"
    shop.mkdir()
    for name, content in files.items():
        (shop / name).write_bytes(content)
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/bash\n"
        'for a; do [[ $last == -cache ]] && cache=$a; last=$a; done\nmkdir -p "$cache"\n'
        f'cp {shop}/* "$cache"\nprintf ":::: ERRORS\\n\\tno route to host\\n\\n"\nexit 1\n'
    )
    program.chmod(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))


def fill(folder: Path, pinned: list[Jar]) -> None:
    for jar in pinned:
        with open(folder / jar.file_name, "wb") as file:
            file.truncate(jar.size)


def test_every_set_is_locked_with_hash_and_size() -> None:
    assert set(locked_jars()) == set(JarSet)
    for jar in (jar for pinned in locked_jars().values() for jar in pinned):
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256)
        assert jar.size > 0


def test_no_two_jars_share_a_file_name() -> None:
    pinned = {jar for jars in locked_jars().values() for jar in jars}
    assert len({jar.file_name for jar in pinned}) == len(pinned)


def test_a_full_cache_needs_no_java(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    wanted = [jar for pinned in locked_jars().values() for jar in pinned]
    fill(cache, wanted)
    assert jar_paths(JarSet) == [cache / jar.file_name for jar in wanted]


def test_fetched_jars_are_kept_and_the_step_is_reported(
    cache: Path, two_jars: list[Jar], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ivy_delivers(monkeypatch, tmp_path, {jar.file_name: CONTENT for jar in two_jars})
    events: list[Event] = []
    paths = jar_paths([JarSet.DELTA], report=events.append)
    assert [path.read_bytes() for path in paths] == [CONTENT, CONTENT]
    assert [type(event).__name__ for event in events] == ["StepStarted", "StepFinished"]
    assert not list(cache.glob(".fetch-*"))


def test_a_truncated_jar_is_fetched_again(
    cache: Path, two_jars: list[Jar], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(cache, two_jars)
    (cache / "two-1.0.jar").write_bytes(CONTENT[:5])
    ivy_delivers(monkeypatch, tmp_path, {"two-1.0.jar": CONTENT})
    assert jar_paths([JarSet.DELTA])[1].read_bytes() == CONTENT


def test_without_network_the_error_names_the_missing_jars_only(
    cache: Path, two_jars: list[Jar], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ivy_delivers(monkeypatch, tmp_path, {"one-1.0.jar": CONTENT})
    with pytest.raises(JarsUnavailable) as caught:
        jar_paths([JarSet.DELTA])
    assert caught.value.code == "JARS_UNAVAILABLE"
    assert caught.value.found == "missing: two-1.0.jar\nreason: no route to host"
    assert (cache / "one-1.0.jar").read_bytes() == CONTENT


def test_a_jar_with_another_hash_is_refused_and_not_kept(
    cache: Path, two_jars: list[Jar], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = CONTENT[::-1]
    ivy_delivers(monkeypatch, tmp_path, {"one-1.0.jar": other, "two-1.0.jar": CONTENT})
    with pytest.raises(JarCorrupt) as caught:
        jar_paths([JarSet.DELTA])
    assert caught.value.code == "JAR_CORRUPT"
    assert sha256(other).hexdigest() in str(caught.value)
    assert not (cache / "one-1.0.jar").exists()
