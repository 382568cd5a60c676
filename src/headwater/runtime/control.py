"""Talking to a running pipeline from another process of the same user.

One request per connection, both sides JSON. The listener accepts only this machine, and only who
knows the token of the run record, which is readable by its owner alone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener, answer_challenge, deliver_challenge
from typing import Any

from headwater.errors import HeadwaterError, PipelineUnreachable
from headwater.runtime.ownership import RunRecord

Handler = Callable[[dict[str, Any]], dict[str, Any]]

_GREETING_S = 20.0
"""A driver that says nothing for so long stands still: it was stopped, or its machine is."""


class ControlServer:
    """Answers requests in a thread of its own until it is closed."""

    def __init__(self, token: str, handler: Handler) -> None:
        self._listener = Listener(("127.0.0.1", 0))
        self._token = token.encode()
        self._handler = handler
        self._thread = threading.Thread(target=self._serve, name="headwater-control", daemon=True)
        self._is_closed = False

    @property
    def port(self) -> int:
        return int(self._listener.address[1])

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._is_closed = True
        self._listener.close()

    def _serve(self) -> None:
        while not self._is_closed:
            try:
                connection = self._listener.accept()
            except OSError:
                # Somebody who left again, or a closed listener, which ends the loop.
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: Any) -> None:
        with connection:
            try:
                # Here, not in the loop: somebody who connects and says nothing holds up nobody.
                deliver_challenge(connection, self._token)
                answer_challenge(connection, self._token)
            except (OSError, EOFError, AuthenticationError):
                return
            try:
                request = json.loads(connection.recv_bytes(maxlength=65536))
                answer = self._handler(request)
            except HeadwaterError as problem:
                answer = {"error": str(problem), "code": problem.code, "found": problem.found}
            except (ValueError, OSError, EOFError) as problem:
                answer = {"error": str(problem), "code": "BAD_REQUEST"}
            connection.send_bytes(json.dumps(answer, default=str).encode())


def ask(record: RunRecord, command: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a running pipeline to one command."""
    try:
        with Client(("127.0.0.1", record.port)) as connection:
            if not connection.poll(_GREETING_S):
                raise TimeoutError(f"no answer within {_GREETING_S:g} s")
            answer_challenge(connection, record.token.encode())
            deliver_challenge(connection, record.token.encode())
            connection.send_bytes(json.dumps({"command": command, **arguments}).encode())
            answer: dict[str, Any] = json.loads(connection.recv_bytes())
            return answer
    except (OSError, EOFError, AuthenticationError) as problem:
        raise PipelineUnreachable(record.pipeline, record.pid, str(problem)) from problem
