"""A real MariaDB server on this machine, from Debian's packages; nothing is installed for it.

The packages are fetched with `apt-get`, which needs no special rights for that, and unpacked into
the cache. A `mariadbd` that is already on the machine is used as it is.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import ServiceFailed
from headwater.events import Report, StepFinished, StepStarted
from headwater.local.cache import alone_in, cache_folder, replace_text
from headwater.local.ports import HOST
from headwater.local.service import Launch, Service

_PACKAGE = "mariadb-server-core"
_USER = "headwater"
_DATABASE = "headwater"
_TABLES = (
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
)
_SYSTEM = Path("/")
_PROTOCOL = 10
"""What the first byte of a server's greeting says."""


@dataclass(frozen=True, slots=True)
class _Installation:
    """Where the files of Debian's packages are: below `/`, or below a folder of their own."""

    root: Path

    @property
    def program(self) -> Path:
        return self.root / "usr/sbin/mariadbd"

    @property
    def share(self) -> Path:
        return self.root / "usr/share/mysql"

    def environment(self) -> dict[str, str]:
        if self.root == _SYSTEM:
            return dict(os.environ)
        found = {str(library.parent) for library in self.root.glob("**/*-linux-gnu/*.so.*")}
        paths = [*sorted(found), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(paths)}

    def command(self, home: Path, *options: str) -> list[str]:
        command = [str(self.program), "--no-defaults", f"--datadir={home / 'data'}"]
        command += [
            f"--lc-messages-dir={self.share}",
            f"--character-sets-dir={self.share}/charsets",
        ]
        # It runs as root only when it is told so.
        return [*command, *(["--user=root"] if os.geteuid() == 0 else []), *options]


class MariaDb(Service):
    name = "mariadb"
    version = "10"
    title = "MariaDB server"

    def prepare(self, home: Path, *, report: Report) -> None:
        installed = _installation()
        if not installed.program.exists():
            step = "Fetching MariaDB's Debian packages"
            report(StepStarted(step))
            began = time.monotonic()
            with alone_in(cache_folder()):
                if not installed.program.exists():
                    self._fetch(home, installed.root)
            report(StepFinished(step, time.monotonic() - began))
        if not (home / "initialised").exists():
            step = "Creating the MariaDB data folder"
            report(StepStarted(step))
            began = time.monotonic()
            self._initialise(home, installed)
            report(StepFinished(step, time.monotonic() - began))

    def launch(self, home: Path, port: int) -> Launch:
        installed = _installation()
        argv = installed.command(home, f"--bind-address={HOST}", f"--port={port}")
        # The path of a socket may have 107 characters at most, fewer than that of a project.
        argv += ["--socket=", "--skip-name-resolve", "--default-time-zone=+00:00"]
        return Launch(argv, environment=installed.environment(), folder=home)

    def is_ready(self, home: Path, port: int) -> bool:
        """A server greets whoever connects, before any login."""
        try:
            with socket.create_connection((HOST, port), timeout=2) as connection:
                greeting = connection.recv(64)
        except OSError:
            return False
        return len(greeting) > 4 and greeting[4] == _PROTOCOL

    def connection(self, home: Path, port: int) -> dict[str, str]:
        return {
            "url": f"jdbc:mariadb://{HOST}:{port}/{_DATABASE}",
            "user": _USER,
            "password": f"file:{_password_file(home)}",
        }

    def _fetch(self, home: Path, root: Path) -> None:
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                reason = "there is no mariadbd on this machine, and no Debian to take one from"
                raise self._failure(home, reason, [f"no program {tool}"])
        draft = root.with_name(".mariadb")
        shutil.rmtree(draft, ignore_errors=True)
        (draft / "debs").mkdir(parents=True)
        own_lists = [f"Dir::State::lists={draft}/lists", f"Dir::Cache={draft}/cache"]
        asked = _ask(["apt-get", "install", "-s", "--no-install-recommends", _PACKAGE])
        options: list[str] = []
        if asked.returncode != 0:
            # A machine that has not listed its packages yet, or may not: lists of our own.
            (draft / "lists/partial").mkdir(parents=True)
            (draft / "cache/archives/partial").mkdir(parents=True)
            options = [word for option in own_lists for word in ("-o", option)]
            self._run(home, ["apt-get", "update", *options])
            asked = self._run(
                home, ["apt-get", "install", "-s", "--no-install-recommends", *options, _PACKAGE]
            )
        names = [line.split()[1] for line in asked.stdout.splitlines() if line.startswith("Inst ")]
        self._run(home, ["apt-get", "download", *options, *names], folder=draft / "debs")
        for package in sorted((draft / "debs").glob("*.deb")):
            self._run(home, ["dpkg-deb", "-x", str(package), str(draft / "files")])
        shutil.rmtree(root, ignore_errors=True)
        (draft / "files").rename(root)
        shutil.rmtree(draft)

    def _initialise(self, home: Path, installed: _Installation) -> None:
        # Without the mark no server has run on this data: what is there is half a beginning.
        shutil.rmtree(home / "data", ignore_errors=True)
        (home / "data").mkdir(mode=0o700)
        password = secrets.token_urlsafe(24)
        replace_text(_password_file(home), password + "\n", mode=0o600)
        tables = [(installed.share / name).read_text(encoding="utf-8") for name in _TABLES]
        statements = [
            "CREATE DATABASE mysql;",
            "USE mysql;",
            *tables,
            f"CREATE DATABASE {_DATABASE} CHARACTER SET utf8mb4;",
            "FLUSH PRIVILEGES;",
            f"CREATE USER {_USER}@'{HOST}' IDENTIFIED BY '{password}';",
            f"GRANT ALL ON {_DATABASE}.* TO {_USER}@'{HOST}';",
        ]
        run = subprocess.run(
            installed.command(home, "--bootstrap"),
            input="\n".join(statements) + "\n",
            capture_output=True,
            text=True,
            env=installed.environment(),
            cwd=home,
            check=False,
        )
        if run.returncode != 0:
            lines = (run.stdout + run.stderr).splitlines()[-10:]
            raise self._failure(home, "its data folder could not be created", lines)
        replace_text(home / "initialised", self.version + "\n")

    def _run(
        self, home: Path, command: Sequence[str], *, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        run = _ask(command, folder=folder)
        if run.returncode != 0:
            lines = (run.stdout + run.stderr).splitlines()[-10:]
            raise self._failure(home, f"{' '.join(command[:2])} failed", lines)
        return run

    def _failure(self, home: Path, reason: str, lines: list[str]) -> ServiceFailed:
        return ServiceFailed(
            service=self.name, reason=reason, log=str(home / "log"), last_lines=lines
        )


def _ask(command: Sequence[str], *, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, check=False
    )


def _installation() -> _Installation:
    system = _Installation(_SYSTEM)
    return system if system.program.exists() else _Installation(cache_folder() / "mariadb")


def _password_file(home: Path) -> Path:
    return home / "password"
