"""Servers that several end-to-end tests share."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headwater as package
from headwater.local import services
from headwater.local.processes import wait_until
from headwater.settings import Connection


@pytest.fixture(scope="session")
def kafka_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a real broker runs for the whole session."""
    folder = tmp_path_factory.mktemp("kafka")
    services.up(folder, "kafka")
    yield folder
    services.down(folder, "kafka")


@pytest.fixture(scope="session")
def kafka_connection(kafka_folder: Path) -> Connection:
    found = services.connection(kafka_folder, "kafka")
    return Connection("kafka", found, "headwater services up kafka")


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[Path]:
    """Where a real PostgreSQL server runs for the whole session."""
    # Not below pytest's folder: PostgreSQL gives up root and could not pass through it.
    folder = Path(tempfile.mkdtemp(prefix="headwater-postgres-"))
    folder.chmod(0o755)
    services.up(folder, "postgres")
    yield folder
    services.down(folder, "postgres")
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def mariadb_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a real MariaDB server runs for the whole session."""
    folder = tmp_path_factory.mktemp("mariadb")
    services.up(folder, "mariadb")
    yield folder
    services.down(folder, "mariadb")


@pytest.fixture(scope="session")
def redis_connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A real Redis server for the whole session."""
    folder = tmp_path_factory.mktemp("redis")
    services.up(folder, "redis")
    yield Connection("redis", services.connection(folder, "redis"), "headwater services up redis")
    services.down(folder, "redis")


@pytest.fixture(scope="session")
def postgres_connection(postgres_folder: Path) -> Connection:
    return Connection("postgres", services.connection(postgres_folder, "postgres"), "services up")


@pytest.fixture
def restarted() -> Callable[[Path, str], None]:
    """Restarts a service in its folder; it keeps its address."""

    def restart(folder: Path, service: str) -> None:
        before = services.connection(folder, service)
        services.down(folder, service)
        services.up(folder, service)
        assert services.connection(folder, service) == before

    return restart


WAIT_S = 600.0
"""How long a condition may take: a machine that does other work starts Spark slowly."""


class Command:
    """A `headwater` process whose output is read as it comes."""

    def __init__(self, arguments: tuple[str, ...], folder: Path) -> None:
        source = str(Path(package.__file__).parents[1])
        paths = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headwater.cli.main", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths, "HEADWATER_MASTER": "local[2]"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def until(self, text: str) -> None:
        """Returns as soon as the output holds the text."""
        self.until_true(lambda: text in self.output)

    def until_true(self, condition: Callable[[], bool]) -> None:
        """Returns as soon as the condition is true, if only for a moment, or the process has ended
        and left it behind."""
        was_true = False

        def is_over() -> bool:
            nonlocal was_true
            was_true = condition()
            return was_true or self.process.poll() is not None

        assert wait_until(is_over, timeout_s=WAIT_S), self.output
        self._drain()
        assert was_true or condition(), self.output

    def end(self, by: signal.Signals | None = None) -> int:
        """The exit code, after a signal where one is given."""
        if by is not None:
            self.process.send_signal(by)
        assert wait_until(lambda: self.process.poll() is not None, timeout_s=WAIT_S), self.output
        self._drain()
        return int(self.process.returncode)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            self.lines.extend(output)

    def _drain(self) -> None:
        if self.process.poll() is not None:
            self._reader.join(timeout=10)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Starts `headwater` with arguments, in a folder (default: the test's own)."""
    started: list[Command] = []

    def begin(*arguments: str, folder: Path = tmp_path) -> Command:
        started.append(Command(arguments, folder))
        return started[-1]

    yield begin
    for command in started:
        if command.process.poll() is None:
            command.process.kill()
        command.end()


@pytest.fixture
def finish(start: Callable[..., Command]) -> Callable[..., Command]:
    """Runs `headwater` to its end and asserts its exit code."""

    def run(*arguments: str, folder: Path, code: int = 0) -> Command:
        command = start(*arguments, folder=folder)
        assert command.end() == code, command.output
        return command

    return run
