from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from headwater.jvm.jar import headwater_jar

ROOT = Path(__file__).parents[3]


def test_jar_is_made_from_the_sources_beside_it() -> None:
    code = "from build_jar import digest; print(digest())"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "tools", capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(ROOT / "src/headwater/jvm/headwater.jar") as jar:
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
    assert f"Source-Digest: {told.stdout.strip()}" in manifest


def test_jar_lies_in_the_cache_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path))
    jar = headwater_jar()
    before = jar.stat()
    assert tmp_path in jar.parents
    assert headwater_jar().stat().st_mtime_ns == before.st_mtime_ns
