"""Talking to a running pipeline, over real connections of this machine."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.errors import PipelineUnreachable
from headwater.runtime import control
from headwater.runtime.control import ControlServer, ask
from headwater.runtime.ownership import RunRecord


@contextmanager
def serving(token: str = "secret") -> Iterator[RunRecord]:
    server = ControlServer(token, lambda request: {"heard": request["command"]})
    server.start()
    try:
        yield RunRecord("app", 1, time.time(), port=server.port, token=token)
    finally:
        server.close()


def test_who_knows_the_token_is_answered_and_nobody_else() -> None:
    with serving() as record:
        assert ask(record, "status") == {"heard": "status"}
        stranger = RunRecord("app", 1, 0.0, port=record.port, token="guessed")
        with pytest.raises(PipelineUnreachable):
            ask(stranger, "status")
        assert ask(record, "status") == {"heard": "status"}


def test_one_who_connects_and_says_nothing_holds_up_nobody() -> None:
    with serving() as record, socket.create_connection(("127.0.0.1", record.port)):
        assert ask(record, "status") == {"heard": "status"}


def test_a_driver_that_stands_still_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_GREETING_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        record = RunRecord("app", 1, 0.0, port=mute.getsockname()[1], token="secret")
        with pytest.raises(PipelineUnreachable, match="no answer"):
            ask(record, "status")


def test_the_command_to_resume_has_the_flags_of_the_run() -> None:
    record = RunRecord("app", 1, 0.0, app="my app.py", flags=("--storage", "hdfs://here/"))
    assert record.start_command == "headwater run 'my app.py' --storage hdfs://here/"
