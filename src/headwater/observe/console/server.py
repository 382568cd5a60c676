"""Serves the page and its API on 127.0.0.1, to whoever has the token."""

from __future__ import annotations

import hmac
import os
import secrets
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from headwater.errors import AddressTaken
from headwater.local import ports
from headwater.observe.console.api import Api
from headwater.observe.console.store import Store
from headwater.observe.serving import LocalServer, Request, Response, problem

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_STARTS_S = 30.0
_LOOKS_S = 1.0


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    local_folders: tuple[Path, ...]
    port: int = 0
    token: str = ""
    is_read_only: bool = False


class Console:
    """The page is for everybody on this machine; every answer with data needs the token.

    The token travels in the fragment of the address, which browsers do not send, and then in a
    header, which no other site can set: so no request of another page counts.
    """

    def __init__(self, settings: ConsoleSettings) -> None:
        self.token = settings.token or secrets.token_urlsafe(24)
        store = Store(settings.local_folders)
        self._api = Api(store, is_read_only=settings.is_read_only)
        self._ahead = threading.Thread(target=store.read_ahead, daemon=True)
        self._files = _static_files()
        self.server = LocalServer(self._answer, port=settings.port, what="console")

    @property
    def address(self) -> str:
        return f"{self.server.address}/#token={self.token}"

    def start(self) -> None:
        self._ahead.start()
        self.server.start()

    def close(self) -> None:
        self.server.close()
        if self._ahead.is_alive():
            self._ahead.join()

    def _answer(self, request: Request) -> Response:
        if request.path.startswith("/api/"):
            if not self._is_known(request):
                return problem(401, "the token is missing or wrong")
            return self._api.answer(request)
        name = "index.html" if request.path == "/" else request.path.lstrip("/")
        if request.method == "POST" or name not in self._files:
            return problem(404, "no such address")
        headers = {"Content-Security-Policy": _POLICY, "Cross-Origin-Opener-Policy": "same-origin"}
        return Response(200, self._files[name], _TYPES[Path(name).suffix], headers)

    def _is_known(self, request: Request) -> bool:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), self.token.encode())


def _static_files() -> dict[str, bytes]:
    folder = resources.files("headwater.observe.console") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if "." in file.name}


class ConsoleProcess:
    """A console in a process of its own, which ends with this one: a browser that asks much
    takes nothing from the pipeline beside it."""

    def __init__(self, local_folders: Sequence[Path], *, port: int, is_read_only: bool) -> None:
        if port and not ports.is_free(port):
            raise AddressTaken("console", port, ports.holder(port))
        token = secrets.token_urlsafe(24)
        settings = ConsoleSettings(tuple(local_folders), port, token, is_read_only)
        mine, theirs = get_context("spawn").Pipe()
        self._process = get_context("spawn").Process(
            target=_serve, args=(settings, theirs), name="headwater-console", daemon=True
        )
        self._process.start()
        theirs.close()
        if not mine.poll(_STARTS_S):
            self.close()
            raise AddressTaken("console", port, None)
        self.address: str = mine.recv()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def close(self) -> None:
        if self._process.is_alive():
            self._process.terminate()
        self._process.join(_STARTS_S)


def _serve(settings: ConsoleSettings, tell: Connection) -> None:
    parent = os.getppid()
    # Ctrl-C in the terminal is meant for the pipeline, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    console = Console(settings)
    console.start()
    tell.send(console.address)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    while not ended.wait(_LOOKS_S):
        if os.getppid() != parent:
            break
    console.close()
