"""A small HTTP server for this machine only: metrics and the console answer through it."""

from __future__ import annotations

import json
import socketserver
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from headwater.errors import AddressTaken
from headwater.local import ports

_BODY_BYTES = 64 * 1024
_IDLE_S = 20.0
_CONNECTIONS = 64
_STOP_POLL_S = 0.05
"""How soon a server notices that it is to end."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


Handle = Callable[[Request], Response]


def json_response(value: Any, status: int = 200) -> Response:
    body = json.dumps(value, default=str, allow_nan=False).encode()
    return Response(status, body, "application/json")


def problem(status: int, what: str) -> Response:
    return json_response({"error": what}, status)


class LocalServer:
    """Answers on 127.0.0.1 in threads of its own until it is closed.

    A request that names another host, or comes from a page of another, is refused: a web page
    cannot reach it through a name that leads to this machine. Callers beyond the limit of
    connections, and those that are slow to ask, are cut off.
    """

    def __init__(self, handle: Handle, *, port: int = 0, what: str = "server") -> None:
        self._handle = handle
        if port and not ports.is_free(port):
            raise AddressTaken(what, port, ports.holder(port))
        self._server = _Server((ports.HOST, port), self)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_STOP_POLL_S,),
            name=f"headwater-{what}",
            daemon=True,
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        return f"http://{ports.HOST}:{self.port}"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def answer(self, request: Request) -> Response:
        allowed = {f"{ports.HOST}:{self.port}", f"localhost:{self.port}"}
        if request.headers.get("host") not in allowed:
            return problem(403, "this server answers to its own address only")
        origin = request.headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in allowed}:
            return problem(403, "requests from other pages are refused")
        try:
            return self._handle(request)
        except Exception as raised:
            # Whatever one request raises is that request's answer; the server goes on.
            return problem(500, f"{type(raised).__name__}: {raised}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # Who finds the queue full tries again after a second.
    request_queue_size = _CONNECTIONS

    def __init__(self, address: tuple[str, int], owner: LocalServer) -> None:
        self.owner = owner
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # http.server asks the name service for the name of this machine, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ports.HOST, int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A browser that goes away in the middle of an answer is no news.
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "headwater"
    sys_version = ""
    timeout = _IDLE_S
    # Head and body are two packets; the second would wait for word of the first, 40 ms on Linux.
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length) > _BODY_BYTES:
            self.close_connection = True
            self._send(problem(413, f"a request holds at most {_BODY_BYTES} bytes"))
            return
        parts = urllib.parse.urlsplit(self.path)
        request = Request(
            self.command,
            parts.path,
            dict(urllib.parse.parse_qsl(parts.query)),
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(int(length)),
        )
        self._send(self.server.owner.answer(request))

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        headers = {
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            **response.headers,
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)


def metrics_handler(text: Callable[[], str], content_type: str) -> Handle:
    """Answers `GET /metrics`."""

    def handle(request: Request) -> Response:
        if request.path != "/metrics":
            return Response(404, b"metrics are at /metrics\n")
        if request.method == "POST":
            return Response(405, b"only GET\n", headers={"Allow": "GET, HEAD"})
        return Response(200, text().encode(), content_type)

    return handle
