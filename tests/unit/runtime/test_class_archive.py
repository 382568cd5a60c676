from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from headwater.events import silent
from headwater.local.java import JavaRuntime
from headwater.local.processes import command_line, wait_until
from headwater.runtime import class_archive
from headwater.runtime.class_archive import archive_options

JARS = [Path("one.jar"), Path("two.jar")]


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HEADWATER_CLASS_ARCHIVE", raising=False)
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


@pytest.fixture
def java(tmp_path: Path) -> JavaRuntime:
    return JavaRuntime(tmp_path / "jdk", 17, "PATH")


def trains(monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> list[Path]:
    """What a training leaves behind, without a JVM; the drafts that it was asked for."""
    asked: list[Path] = []

    def train(draft: Path, folder: Path) -> None:
        asked.append(draft)
        (folder / "log").touch()
        if content is not None:
            draft.write_bytes(content)

    monkeypatch.setattr(class_archive, "_train", train)
    return asked


def test_an_archive_is_made_once(
    cache: Path, java: JavaRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = trains(monkeypatch, b"classes")
    first = archive_options(java, JARS, silent)
    assert archive_options(java, JARS, silent) == first
    assert len(asked) == 1
    (archive,) = (cache / "classes").glob("*.jsa")
    assert f"-XX:SharedArchiveFile={archive}" in first
    assert archive.read_bytes() == b"classes"


def test_other_jars_have_another_archive(
    cache: Path, java: JavaRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = trains(monkeypatch, b"classes")
    assert archive_options(java, JARS, silent) != archive_options(java, JARS[:1], silent)
    assert len(asked) == 2


def test_a_java_that_cannot_do_it_is_asked_once(
    cache: Path, java: JavaRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = trains(monkeypatch, None)
    assert [archive_options(java, JARS, silent) for _ in range(2)] == ["", ""]
    assert len(asked) == 1


def test_a_training_that_hangs_is_ended_and_does_no_harm(
    cache: Path, java: JavaRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    hangs = tmp_path / "python"
    hangs.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {pid}\nwait\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hangs))
    monkeypatch.setattr(class_archive, "_TRAINING_S", 1.0)
    assert [archive_options(java, JARS, silent) for _ in range(2)] == ["", ""]
    (log,) = (cache / "classes").glob("*.log")
    assert "longer than 1 s" in log.read_text()
    assert wait_until(lambda: not command_line(int(pid.read_text())), timeout_s=10)


def test_a_cache_that_cannot_be_written_to_does_no_harm(cache: Path, java: JavaRuntime) -> None:
    (cache / "classes").write_text("a file where a folder should be")
    assert archive_options(java, JARS, silent) == ""


def test_it_can_be_switched_off(
    cache: Path, java: JavaRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_CLASS_ARCHIVE", "off")
    assert archive_options(java, JARS, silent) == ""
    assert not (cache / "classes").exists()


def test_archives_that_nobody_used_for_long_are_removed_by_the_next_one(
    cache: Path, java: JavaRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    trains(monkeypatch, b"classes")
    archive_options(java, JARS, silent)
    (old,) = (cache / "classes").glob("*.jsa")
    os.utime(old, (0, 0))
    archive_options(java, JARS[:1], silent)
    assert old not in (cache / "classes").glob("*.jsa")
    assert len(list((cache / "classes").glob("*.jsa"))) == 1


def test_an_archive_in_use_stays(
    cache: Path, java: JavaRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    trains(monkeypatch, b"classes")
    archive_options(java, JARS, silent)
    (old,) = (cache / "classes").glob("*.jsa")
    os.utime(old, (0, 0))
    archive_options(java, JARS, silent)
    archive_options(java, JARS[:1], silent)
    assert old.exists()
