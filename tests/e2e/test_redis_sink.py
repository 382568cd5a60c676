"""Tables written to a real Redis server: exactly once, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from redis import Redis

from headwater import Pipeline
from headwater.connectors import kafka, redis
from headwater.connectors.interface import ReadRequest, WriteRequest
from headwater.definitions import OutputMode
from headwater.settings import Connection, Settings

APPEND, UPDATE, COMPLETE = OutputMode.APPEND, OutputMode.UPDATE, OutputMode.COMPLETE
Rows = list[tuple[Any, ...]]


@pytest.fixture
def server(redis_connection: Connection) -> Iterator[Redis]:
    url, password = (redis_connection.require(name) for name in ("url", "password"))
    client = Redis.from_url(url, password=password, decode_responses=True)
    client.flushdb()
    yield client
    client.close()


def write(
    frame: DataFrame,
    connection: Connection,
    batch: int,
    *,
    query: str = "q",
    mode: OutputMode = UPDATE,
    key: tuple[str, ...] = ("device",),
    order_by: tuple[str, ...] = (),
) -> None:
    """One batch of a query, as the runtime writes it."""
    request = WriteRequest("result", mode, key, connection, Path(), managed="", order_by=order_by)
    sink = redis("t")
    sink.prepare(frame.sparkSession, frame._jdf.schema().toDDL(), request)
    sink.write_increment(frame, request, query=query, batch=batch)


def devices(spark: SparkSession, *found: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(found), "device string, n int")


def content(server: Redis, prefix: str = "t") -> dict[str, dict[str, str]]:
    return {key: server.hgetall(key) for key in sorted(server.scan_iter(f"{prefix}:*"))}


def test_rows_replace_those_of_their_key(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    write(devices(spark, ("a", 1), ("b", None)), redis_connection, 0)
    write(devices(spark, ("a", 2)), redis_connection, 1)
    assert content(server) == {"t:a": {"device": "a", "n": "2"}, "t:b": {"device": "b"}}


def test_keys_that_vanished_are_removed_in_complete_mode(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    server.hset("t:foreign", "n", "1")
    for batch, found in enumerate([[("a", 1), ("b", 1)], [("b", 2), ("c", 1)], []]):
        write(devices(spark, *found), redis_connection, batch, mode=COMPLETE)
        keys = sorted([*(f"t:{device}" for device, _ in found), "t:foreign"])
        assert list(content(server)) == keys
