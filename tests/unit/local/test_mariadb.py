"""How the local MariaDB server is set, without starting it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import ServiceFailed
from headwater.events import silent
from headwater.local.mariadb import MariaDb


def test_elsewhere_than_on_debian_a_server_of_ones_own_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceFailed, match="no Debian to take one from") as caught:
        MariaDb().prepare(tmp_path, report=silent)
    assert "no program apt-get" in str(caught.value)


def test_it_listens_on_this_machine_only_and_hands_out_no_secret(tmp_path: Path) -> None:
    launch = MariaDb().launch(tmp_path, 20_000)
    assert "--bind-address=127.0.0.1" in launch.argv
    assert MariaDb().connection(tmp_path, 20_000) == {
        "url": "jdbc:mariadb://127.0.0.1:20000/headwater",
        "user": "headwater",
        "password": f"file:{tmp_path / 'password'}",
    }


def test_a_port_where_nobody_greets_is_not_ready(tmp_path: Path) -> None:
    assert not MariaDb().is_ready(tmp_path, 1)
