"""Local services by name: start, stop, look up. Servers outlive the command that starts them.

Everything about a service is below `<folder>/services/<name>/`: `state.json` (pid, start time,
port, version), `log`, `pid` and the server's data. `folder` is a project's `.headwater`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path

from headwater.errors import PortTaken, ServiceFailed, ServiceUnknown
from headwater.events import Report, StepFinished, StepStarted, silent
from headwater.local import ports
from headwater.local.cache import alone_in, replace_text
from headwater.local.cluster import ClusterShape, SparkCluster, write_shape
from headwater.local.hdfs import Hdfs
from headwater.local.kafka import Kafka
from headwater.local.mariadb import MariaDb
from headwater.local.postgres import Postgres
from headwater.local.processes import (
    ProcessMark,
    command_line,
    mark,
    pid_in,
    start_detached,
    stop,
    wait_until,
)
from headwater.local.redis import Redis
from headwater.local.service import Service

SERVICES: dict[str, Service] = {
    service.name: service
    for service in (Kafka(), Postgres(), MariaDb(), Redis(), SparkCluster(), Hdfs())
}

_ATTEMPTS = 3
_RELEASE_S = 2.0


class ServiceHealth(Enum):
    """What `status` finds: `CRASHED` was started and is gone, `SILENT` runs but does not answer."""

    RUNNING = "running"
    STOPPED = "stopped"
    CRASHED = "crashed"
    SILENT = "not answering"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where a running service listens; `was_running` says that it was found, not started."""

    name: str
    address: str
    pid: int
    log: Path
    was_running: bool


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    name: str
    health: ServiceHealth
    address: str | None
    pid: int | None
    log: Path


@dataclass(frozen=True, slots=True)
class _State:
    """The content of `state.json`; without a pid it remembers the port of a stopped service."""

    port: int
    version: str
    pid: int | None = None
    started: str | None = None
    is_ready: bool = False

    def process(self) -> ProcessMark | None:
        """The live process this state speaks of."""
        if self.pid is None or self.started is None:
            return None
        process = ProcessMark(self.pid, self.started)
        return process if process.is_alive() else None


def up(
    folder: Path, name: str, *, port: int | None = None, report: Report = silent
) -> ServiceAddress:
    """Make the service run and answer: found running, or started on the data it has.

    A server that survived an earlier command is used as it is; one that was only half started is
    ended first. Without `port` the remembered one is taken if it is free, else another. Raises
    ServiceUnknown, PortTaken, ServiceFailed, ServicePackageMissing and what jars and Java raise.
    """
    service = _service(name)
    home = _home(folder, name)
    with alone_in(home):
        state = _read(home)
        if state and _serves(service, home, state) and port in (None, state.port):
            return _address(service, home, state, was_running=True)
        if port is not None:
            _require_free(service, state, port)
        _end_leftovers(service, home, state)
        service.prepare(home, report=report)
        step = f"Starting the {service.title}"
        report(StepStarted(step))
        began = time.monotonic()
        started = _start(service, home, asked=port, remembered=state.port if state else None)
        report(StepFinished(step, time.monotonic() - began))
        return _address(service, home, started, was_running=False)


def down(folder: Path, name: str, *, report: Report = silent) -> bool:
    """Stop the service cleanly and keep its data. False if it was not running."""
    service = _service(name)
    home = _home(folder, name)
    if not home.exists():
        return False
    with alone_in(home):
        state = _read(home)
        was_running = _leftover(home, state) is not None
        step = f"Stopping the {service.title}"
        began = time.monotonic()
        if was_running:
            report(StepStarted(step))
        _end_leftovers(service, home, state)
        if was_running:
            report(StepFinished(step, time.monotonic() - began))
    return was_running


def status(folder: Path) -> list[ServiceStatus]:
    """Every service that was ever started below `folder`, asked in its own protocol."""
    homes = [_home(folder, name) for name in SERVICES]
    return [_status(SERVICES[home.name], home) for home in homes if (home / "state.json").exists()]


def address(folder: Path, name: str) -> str | None:
    """`host:port` of the service if its process lives; costs two small files, no connection."""
    _service(name)
    state = _read(_home(folder, name))
    if state is None or not state.is_ready or state.process() is None:
        return None
    return f"{ports.HOST}:{state.port}"


def connection(folder: Path, name: str) -> dict[str, str]:
    """What a connector needs to reach the service; empty when it is not running.

    Passwords are references (`file:PATH`), never values.
    """
    home = _home(folder, name)
    state = _read(home)
    if address(folder, name) is None or state is None:
        return {}
    return _service(name).connection(home, state.port)


def shape_cluster(folder: Path, *, workers: int) -> None:
    """How many workers the Spark cluster has from its next start on."""
    write_shape(_home(folder, "spark"), ClusterShape(workers=workers))


def require_known(names: Iterable[str]) -> None:
    """Raise ServiceUnknown for the first name that is no service."""
    for name in names:
        _service(name)


def _service(name: str) -> Service:
    if name not in SERVICES:
        raise ServiceUnknown(name=name, known=SERVICES)
    return SERVICES[name]


def _home(folder: Path, name: str) -> Path:
    return folder.absolute() / "services" / name


def _read(home: Path) -> _State | None:
    try:
        return _State(**json.loads((home / "state.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _write(home: Path, state: _State) -> _State:
    replace_text(home / "state.json", json.dumps(asdict(state)) + "\n")
    return state


def _serves(service: Service, home: Path, state: _State) -> bool:
    return (
        state.is_ready
        and state.process() is not None
        and ports.is_listening(state.port)
        and service.is_ready(home, state.port)
    )


def _status(service: Service, home: Path) -> ServiceStatus:
    state = _read(home)
    log = home / "log"
    if state is None or state.pid is None:
        return ServiceStatus(service.name, ServiceHealth.STOPPED, None, None, log)
    if state.process() is None:
        return ServiceStatus(service.name, ServiceHealth.CRASHED, None, None, log)
    health = ServiceHealth.RUNNING if _serves(service, home, state) else ServiceHealth.SILENT
    return ServiceStatus(service.name, health, f"{ports.HOST}:{state.port}", state.pid, log)


def _address(service: Service, home: Path, state: _State, *, was_running: bool) -> ServiceAddress:
    assert state.pid is not None
    place = f"{ports.HOST}:{state.port}"
    return ServiceAddress(service.name, place, state.pid, home / "log", was_running)


def _leftover(home: Path, state: _State | None) -> ProcessMark | None:
    return (state.process() if state else None) or _unrecorded(home)


def _end_leftovers(service: Service, home: Path, state: _State | None) -> None:
    """End what an earlier command started here and left, and forget its pid."""
    process = _leftover(home, state)
    if process is not None:
        stop(process, first=service.stop_signal, timeout_s=service.stop_timeout_s)
    (home / "pid").unlink(missing_ok=True)
    if state is not None:
        if state.pid is not None:
            # The threads of a server hold its port a moment longer than it has a pid.
            wait_until(lambda: ports.is_free(state.port), timeout_s=_RELEASE_S)
        _write(home, _State(port=state.port, version=state.version))


def _unrecorded(home: Path) -> ProcessMark | None:
    """A server whose starter died before it wrote the state: known by its pid and command line."""
    pid = pid_in(home / "pid")
    command = home / "command"
    if pid is None or not command.exists():
        return None
    is_ours = command_line(pid).rstrip().endswith(command.read_text(encoding="utf-8").strip())
    return mark(pid) if is_ours else None


def _require_free(service: Service, state: _State | None, port: int) -> None:
    is_own = state is not None and state.port == port and state.process() is not None
    if not is_own and not ports.is_free(port):
        raise PortTaken(service=service.name, port=port, holder=ports.holder(port))


def _start(service: Service, home: Path, *, asked: int | None, remembered: int | None) -> _State:
    deadline = time.monotonic() + service.start_timeout_s
    for attempt in range(_ATTEMPTS):
        port = asked or _chosen(remembered if attempt == 0 else None)
        started = _attempt(service, home, port, deadline)
        if started is not None:
            return started
    raise _failure(service, home)


def _chosen(remembered: int | None) -> int:
    if remembered is not None and ports.is_free(remembered):
        return remembered
    return ports.free_port()


def _attempt(service: Service, home: Path, port: int, deadline: float) -> _State | None:
    """One start; None if the server ended by itself, as it does when another took the port."""
    launch = service.launch(home, port)
    # Without the program itself: a wrapper script replaces it by another.
    replace_text(home / "command", " ".join(launch.argv[1:]) + "\n")
    pid = start_detached(
        launch.argv,
        log=home / "log",
        pid_file=home / "pid",
        environment=launch.environment,
        folder=launch.folder,
        account=launch.account,
    )
    process = mark(pid)
    if process is None:
        return None
    state = _write(home, _State(port, service.version, process.pid, process.started))

    def is_decided() -> bool:
        if not process.is_alive():
            return True
        return ports.is_listening(port) and service.is_ready(home, port)

    is_in_time = wait_until(is_decided, timeout_s=deadline - time.monotonic(), interval_s=0.1)
    if is_in_time and process.is_alive():
        return _write(home, replace(state, is_ready=True))
    was_alive = process.is_alive()
    _end_leftovers(service, home, state)
    if was_alive:
        raise _failure(service, home, reason=f"no answer in {service.start_timeout_s:.0f} s")
    return None


def _failure(service: Service, home: Path, *, reason: str = "it ended") -> ServiceFailed:
    log = home / "log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return ServiceFailed(service=service.name, reason=reason, log=str(log), last_lines=lines[-10:])
