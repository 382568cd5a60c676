"""`headwater services`, as far as no server needs to run."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from headwater.cli import services as command
from headwater.errors import PortForSeveral, ServiceUnknown


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="headwater services")
    command.configure(parser)
    return command.run(parser.parse_args(arguments))


def test_status_of_a_fresh_folder_names_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("status", "--folder", str(tmp_path)) == 0
    assert f"headwater services up kafka --folder {tmp_path}" in capsys.readouterr().out


def test_status_with_a_crashed_service_is_not_a_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "services" / "kafka"
    home.mkdir(parents=True)
    (home / "state.json").write_text(
        '{"port": 20000, "version": "4.3.1", "pid": 4194305, "started": "x", "is_ready": true}'
    )
    assert run("status", "--folder", str(tmp_path)) == 3
    out = capsys.readouterr().out
    assert "kafka: crashed" in out
    assert "next: headwater services up kafka" in out


def test_down_without_services_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("down", "--folder", str(tmp_path)) == 0
    assert "no service was started" in capsys.readouterr().out


def test_an_unknown_name_starts_none_of_the_others(tmp_path: Path) -> None:
    with pytest.raises(ServiceUnknown):
        run("up", "kafka", "postgrs", "--folder", str(tmp_path))
    assert not (tmp_path / "services").exists()


def test_one_port_for_two_services_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PortForSeveral) as caught:
        run("up", "kafka", "postgres", "--port", "20000", "--folder", str(tmp_path))
    assert caught.value.code == "PORT_FOR_SEVERAL"
    assert not (tmp_path / "services").exists()


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http"])
def test_a_number_that_is_no_port_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run("up", "kafka", f"--port={port}")
    assert caught.value.code == 2
    assert "expected 1 to 65535" in capsys.readouterr().err
