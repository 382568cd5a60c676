"""The life of a service, with a small web server in the role of the broker."""

from __future__ import annotations

import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import PortTaken, ServiceFailed, ServiceUnknown
from headwater.events import Report
from headwater.local import services
from headwater.local.ports import HOST, free_port
from headwater.local.processes import mark, wait_until
from headwater.local.service import Launch, Service
from headwater.local.services import ServiceHealth


class Web(Service):
    name = "web"
    version = "1"
    title = "web server"
    stop_signal = signal.SIGTERM
    start_timeout_s = 20.0

    def prepare(self, home: Path, *, report: Report) -> None:
        (home / "data").mkdir(exist_ok=True)

    def launch(self, home: Path, port: int) -> Launch:
        argv = [sys.executable, "-S", "-m", "http.server", str(port), "--bind", HOST]
        return Launch([*argv, "-d", str(home / "data")], environment=os.environ, folder=home)

    def is_ready(self, home: Path, port: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def connection(self, home: Path, port: int) -> dict[str, str]:
        return {"url": f"http://{HOST}:{port}/"}


class Broken(Web):
    name = "broken"

    def launch(self, home: Path, port: int) -> Launch:
        argv = ["sh", "-c", "echo the disk is on fire; exit 1"]
        return Launch(argv, environment=os.environ, folder=home)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(services, "SERVICES", {"web": Web(), "broken": Broken()})
    yield tmp_path
    services.down(tmp_path, "web")


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: mark(pid) is None, timeout_s=10)


def health(folder: Path) -> ServiceHealth:
    return services.status(folder)[0].health


def test_a_running_service_is_found_and_reused(folder: Path) -> None:
    first = services.up(folder, "web")
    second = services.up(folder, "web")
    assert (first.was_running, second.was_running) == (False, True)
    assert (second.pid, second.address) == (first.pid, first.address)


def test_a_running_service_can_be_looked_up(folder: Path) -> None:
    place = services.up(folder, "web").address
    assert services.address(folder, "web") == place
    assert services.connection(folder, "web") == {"url": f"http://{place}/"}
    assert health(folder) is ServiceHealth.RUNNING


def test_down_ends_the_process_and_up_takes_the_port_again(folder: Path) -> None:
    first = services.up(folder, "web")
    assert services.down(folder, "web")
    assert mark(first.pid) is None
    assert services.address(folder, "web") is None
    assert health(folder) is ServiceHealth.STOPPED
    assert services.up(folder, "web").address == first.address


def test_down_of_a_service_that_never_ran_says_so(folder: Path) -> None:
    assert not services.down(folder, "web")
    assert services.status(folder) == []
    assert services.connection(folder, "web") == {}


def test_a_crashed_service_is_reported_and_started_on_its_data(folder: Path) -> None:
    first = services.up(folder, "web")
    (folder / "services" / "web" / "data" / "kept").write_text("yes")
    kill(first.pid)
    assert services.address(folder, "web") is None
    assert health(folder) is ServiceHealth.CRASHED
    second = services.up(folder, "web")
    assert second.pid != first.pid
    assert (folder / "services" / "web" / "data" / "kept").read_text() == "yes"


def test_down_after_a_crash_forgets_the_crash(folder: Path) -> None:
    kill(services.up(folder, "web").pid)
    assert not services.down(folder, "web")
    assert health(folder) is ServiceHealth.STOPPED


def test_a_half_started_service_is_ended_before_the_next_start(folder: Path) -> None:
    first = services.up(folder, "web")
    state = folder / "services" / "web" / "state.json"
    state.write_text(state.read_text().replace('"is_ready": true', '"is_ready": false'))
    second = services.up(folder, "web")
    assert second.pid != first.pid
    assert mark(first.pid) is None


def test_a_service_whose_starter_died_before_the_state_was_written_is_ended(folder: Path) -> None:
    first = services.up(folder, "web")
    (folder / "services" / "web" / "state.json").unlink()
    second = services.up(folder, "web")
    assert second.pid != first.pid
    assert mark(first.pid) is None


def test_a_damaged_state_file_is_no_obstacle(folder: Path) -> None:
    first = services.up(folder, "web")
    (folder / "services" / "web" / "state.json").write_text('{"port": 1')
    assert services.up(folder, "web").pid != first.pid
    assert mark(first.pid) is None


def test_a_remembered_port_that_another_took_is_replaced(folder: Path) -> None:
    first = services.up(folder, "web")
    services.down(folder, "web")
    port = int(first.address.rpartition(":")[2])
    with socket.create_server((HOST, port)):
        assert services.up(folder, "web").address != first.address


def test_an_asked_port_in_use_is_an_error_that_leaves_the_service_running(folder: Path) -> None:
    running = services.up(folder, "web")
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken) as caught:
            services.up(folder, "web", port=port)
    assert caught.value.code == "PORT_TAKEN"
    assert str(port) in str(caught.value)
    assert services.address(folder, "web") == running.address


def test_another_asked_port_moves_the_service(folder: Path) -> None:
    first = services.up(folder, "web")
    port = free_port()
    second = services.up(folder, "web", port=port)
    assert second.address == f"{HOST}:{port}"
    assert mark(first.pid) is None


def test_a_service_that_ends_at_once_shows_its_log(folder: Path) -> None:
    with pytest.raises(ServiceFailed) as caught:
        services.up(folder, "broken")
    assert caught.value.code == "SERVICE_FAILED"
    assert "the disk is on fire" in str(caught.value)
    assert str(folder / "services" / "broken" / "log") in str(caught.value)
    assert services.address(folder, "broken") is None


def test_an_unknown_service_names_the_nearest(folder: Path) -> None:
    with pytest.raises(ServiceUnknown) as caught:
        services.up(folder, "wep")
    assert caught.value.code == "SERVICE_UNKNOWN"
    assert "'web'" in str(caught.value)
