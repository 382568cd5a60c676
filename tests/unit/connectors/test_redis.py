"""What the Redis connector says and refuses without a server, and the text that it sends."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql.types import BinaryType, LongType, StructType, TimestampType

from headwater.connectors import redis
from headwater.connectors.interface import ALL_MODES, MICRO_BATCH, WriteRequest
from headwater.connectors.redis import _server, order_of
from headwater.connectors.resp import Job, _bytes, _head
from headwater.definitions import OutputMode
from headwater.errors import ClientPackageMissing, ConnectionMissing, InvalidConnector
from headwater.ledger.redis import Server
from headwater.settings import Connection


def connection(**options: str) -> Connection:
    return Connection("redis", options, "headwater.toml")


def writes(*order_by: str) -> WriteRequest:
    mode = OutputMode.UPDATE
    return WriteRequest("t", mode, ("id",), None, Path(), managed="", order_by=order_by)


def test_every_mode_is_possible_with_a_key_and_none_without() -> None:
    assert redis("t").modes(has_key=True) == ALL_MODES
    assert redis("t").modes(has_key=False) == frozenset()
    assert redis("t").write_triggers == MICRO_BATCH
    assert all(redis("t").idempotence(mode, has_key=True).is_held for mode in OutputMode)


def test_two_writers_of_one_place_are_seen_by_their_place(tmp_path: Path) -> None:
    assert redis("a").place(tmp_path, "one") == redis("a").place(tmp_path, "one")
    assert redis("a").place(tmp_path, "one") != redis("a").place(tmp_path, "two")
    assert redis("a").place(tmp_path, "one") != redis("b").place(tmp_path, "one")


@pytest.mark.parametrize("prefix", ["", "headwater", "headwater:ledger"])
def test_a_prefix_that_would_meet_our_own_keys_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidConnector, match="prefix"):
        redis(prefix)


def test_an_address_is_a_url_without_a_password() -> None:
    found = _server(connection(url="redis://host:6379/2", user="ada", password="sesame-1"))
    assert (found.url, found.user) == ("redis://host:6379/2", "ada")
    assert "sesame-1" not in repr(found)
    for url in ("redis://:sesame-1@host/0", "redis://host?password=sesame-1"):
        with pytest.raises(InvalidConnector, match="holds a password") as caught:
            _server(connection(url=url))
        assert "sesame-1" not in str(caught.value)
    with pytest.raises(InvalidConnector, match="no address of a Redis server"):
        _server(connection(url="host:6379"))
    with pytest.raises(ConnectionMissing, match="url"):
        _server(connection())


def test_a_missing_client_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ClientPackageMissing, match="redis") as caught:
        _server(connection(url="redis://host/0"))
    assert caught.value.code == "CLIENT_PACKAGE_MISSING"
    assert "headwater[redis]" in str(caught.value)


def test_an_order_is_of_columns_that_can_be_compared() -> None:
    schema = StructType().add("n", LongType()).add("at", TimestampType()).add("raw", BinaryType())
    assert order_of(writes("AT", "n"), schema) == (("at", "time"), ("n", "integer"))
    with pytest.raises(InvalidConnector, match="order_by='att' is no column"):
        order_of(writes("att"), schema)
    with pytest.raises(InvalidConnector, match="order_by='raw' is a binary"):
        order_of(writes("raw"), schema)


def test_a_command_announces_as_many_arguments_as_it_has() -> None:
    job = Job(Server("redis://host", None, None), "q", "c", ("a", "b"), ("keys",))
    head = _head(job, rows=4)
    words = head.count(b"\r\n$")
    assert head.startswith(b"*%d\r\n$4\r\nEVAL\r\n" % (words + 4 * 3))


@pytest.mark.parametrize("kind", [pyarrow.binary(), pyarrow.large_binary()])
def test_the_bytes_of_a_part_are_those_of_its_rows(kind: pyarrow.DataType) -> None:
    column = pyarrow.array([b"one", b"", b"three", b"four"], kind)
    assert bytes(_bytes(column)) == b"onethreefour"
    assert bytes(_bytes(column.slice(1, 2))) == b"three"
