from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from headwater.local import ports


@pytest.fixture
def held_port() -> Iterator[int]:
    with socket.create_server((ports.HOST, 0)) as server:
        yield server.getsockname()[1]


def test_a_port_with_a_listener_is_not_free(held_port: int) -> None:
    assert not ports.is_free(held_port)
    assert ports.is_listening(held_port)


def test_a_chosen_port_is_free_and_outside_the_range_of_outgoing_connections() -> None:
    port = ports.free_port()
    assert ports.is_free(port)
    assert not ports.is_listening(port)
    assert port < 32_768
