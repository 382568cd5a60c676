"""Tables written to a real Redis server: exactly once, whatever happens on the way."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from redis import Redis

from headwater import Pipeline
from headwater.connectors import json, kafka, redis, waits
from headwater.connectors.interface import ReadRequest, WriteRequest
from headwater.connectors.redis import _Writer
from headwater.definitions import OutputMode
from headwater.errors import (
    DatabaseRefused,
    DatabaseUnreachable,
    HeadwaterError,
    InvalidConnector,
    KeyIsNull,
    KeyNotUnique,
    KeyTaken,
    WriterFenced,
)
from headwater.events import Event, QueryRestarting
from headwater.ledger.redis import LEDGER, RedisLedger
from headwater.local import services
from headwater.local.processes import wait_until
from headwater.runtime import supervision
from headwater.settings import Connection, Settings
from headwater.testing import Harness, add, check, crash, process, restart

APPEND, UPDATE, COMPLETE = OutputMode.APPEND, OutputMode.UPDATE, OutputMode.COMPLETE


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


def numbers(server: Redis) -> dict[str, str | None]:
    """The number of every device."""
    return {key.removeprefix("t:"): row.get("n") for key, row in content(server).items()}


def read(spark: SparkSession, connection: Connection, schema: str | None = None) -> DataFrame:
    return redis("t").read_batch(spark, ReadRequest("t", schema, connection, Path()))


def test_rows_replace_those_of_their_key(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    write(devices(spark, ("a", 1), ("b", None)), redis_connection, 0, key=("Device",))
    write(devices(spark, ("a", None), ("c", 3)), redis_connection, 1)
    assert content(server) == {
        "t:a": {"device": "a"},
        "t:b": {"device": "b"},
        "t:c": {"device": "c", "n": "3"},
    }


def test_keys_that_vanished_are_removed_in_complete_mode(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    server.hset("t:foreign", "n", "1")
    for batch, found in enumerate([[("a", 1), ("b", 1)], [("b", 2), ("c", 1)], []]):
        write(devices(spark, *found), redis_connection, batch, mode=COMPLETE)
        keys = sorted([*(f"t:{device}" for device, _ in found), "t:foreign"])
        assert list(content(server)) == keys
    assert not list(server.scan_iter("headwater:keys:*"))


def test_rows_are_appended_under_keys_of_their_own(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    write(devices(spark, ("a", 1)), redis_connection, 0, mode=APPEND)
    # What is there already, with the same values, is the same row.
    write(devices(spark, ("a", 1), ("b", 1)), redis_connection, 1, mode=APPEND)
    assert numbers(server) == {"a": "1", "b": "1"}
    with pytest.raises(KeyTaken, match="t:a is there with other values") as caught:
        write(devices(spark, ("a", 2)), redis_connection, 2, mode=APPEND)
    assert caught.value.code == "KEY_TAKEN"
    assert numbers(server)["a"] == "1"
    with pytest.raises(KeyTaken):
        write(devices(spark, ("c", 1), ("c", 2)), redis_connection, 2, mode=APPEND)


def test_a_batch_that_comes_again_is_left_out(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    for batch, number, then in [(0, 1, 1), (1, 2, 2), (1, 9, 2), (0, 1, 2), (2, 3, 3)]:
        write(devices(spark, ("a", number)), redis_connection, batch)
        assert numbers(server) == {"a": str(then)}
    assert server.hgetall(LEDGER) == {"q": "2"}
    request = WriteRequest("result", UPDATE, ("device",), redis_connection, Path(), managed="")
    assert redis("t").position(spark, request, "q") == "batch 2"
    # A fresh checkpoint has another id, and starts again at batch 0.
    write(devices(spark, ("a", 7)), redis_connection, 0, query="other")
    assert numbers(server) == {"a": "7"}


def test_without_the_ledger_an_old_batch_would_come_back(
    spark: SparkSession,
    redis_connection: Connection,
    server: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take = RedisLedger.take
    monkeypatch.setattr(
        RedisLedger,
        "take",
        lambda self, client, batch, cleared=(): take(self, client, 10**6, cleared=cleared),
    )
    for batch, number in [(0, 1), (1, 2), (0, 1)]:
        write(devices(spark, ("a", number)), redis_connection, batch)
    assert numbers(server) == {"a": "1"}


def test_a_batch_that_was_written_but_not_recorded_is_written_again_the_same(
    spark: SparkSession,
    redis_connection: Connection,
    server: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    for mode in (APPEND, UPDATE, COMPLETE):
        server.flushdb()
        write(devices(spark, ("a", 1)), redis_connection, 0, mode=mode)
        frame = devices(spark, ("b", 2), ("c", 3))
        with monkeypatch.context() as patched:
            patched.setattr(RedisLedger, "advance", dies)
            with pytest.raises(KeyboardInterrupt):
                write(frame, redis_connection, 1, mode=mode)
        assert server.hget(LEDGER, "q") == "0"
        before = content(server)
        write(frame, redis_connection, 1, mode=mode)
        assert content(server) == before
        assert set(numbers(server)) == ({"b", "c"} if mode is COMPLETE else {"a", "b", "c"})
        assert server.hgetall(LEDGER) == {"q": "1"}


def test_a_driver_that_was_overtaken_writes_nothing_more(
    spark: SparkSession,
    redis_connection: Connection,
    server: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the claim of one driver and its first row another one writes the same batch."""
    send = _Writer._send

    def overtaken(self: _Writer, *arguments: Any) -> None:
        monkeypatch.setattr(_Writer, "_send", send)
        write(devices(spark, ("a", 1)), redis_connection, 0)
        send(self, *arguments)

    monkeypatch.setattr(_Writer, "_send", overtaken)
    with pytest.raises(WriterFenced) as caught:
        write(devices(spark, ("a", 2), ("b", 2)), redis_connection, 0)
    assert caught.value.code == "WRITER_FENCED"
    assert numbers(server) == {"a": "1"}
    assert server.hgetall(LEDGER) == {"q": "0"}


def test_a_driver_that_was_overtaken_removes_nothing(
    spark: SparkSession,
    redis_connection: Connection,
    server: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the rows of one driver, before it removes what vanished, another one claims the batch
    and has written a first row."""
    write(devices(spark, ("a", 1)), redis_connection, 0, mode=COMPLETE)
    call = RedisLedger.call

    def overtaken(self: RedisLedger, client: Any, *arguments: Any) -> Any:
        RedisLedger("q").take(client, 1, cleared=list(server.scan_iter("headwater:keys:t/*")))
        server.sadd("headwater:keys:t/rows", "t:c")
        return call(self, client, *arguments)

    monkeypatch.setattr(RedisLedger, "call", overtaken)
    with pytest.raises(WriterFenced):
        write(devices(spark, ("b", 2)), redis_connection, 1, mode=COMPLETE)
    assert set(numbers(server)) == {"a", "b"}
    assert server.smembers("headwater:keys:t/rows") == {"t:c"}
    assert server.hget(LEDGER, "q") == "0"


ORDERS = {
    "long": [("-10", "-9"), ("-9", "9"), ("9", "10"), ("9007199254740992", "9007199254740993")],
    "double": [("-1.5", "1.0E9"), ("1.0E9", "2.0E10")],
    "date": [("2025-12-31", "2026-01-09"), ("2026-01-09", "2026-01-10")],
    "timestamp": [("2026-01-01 00:00:00", "2026-01-01 00:00:00.25"), (None, "2026-01-01 00:00:00")],
    "string": [("B", "a"), ("a", "ab")],
}
"""Of every kind of order: an older value and a later one."""


def test_a_row_that_is_older_does_not_replace(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    """Each pair comes in order for one device and the other way round for another."""
    batches: tuple[list[Any], list[Any]] = ([], [])
    for kind, pairs in ORDERS.items():
        for older, later in pairs:
            for device, values in (("up", (older, later)), ("down", (later, older))):
                for batch, value in enumerate(values):
                    order = {name: value if name == kind else None for name in ORDERS}
                    name = f"{device} {kind} {later}"
                    batches[batch].append((name, int(value == later), *order.values()))
    texts = ", ".join(f"o_{kind} string" for kind in ORDERS)
    columns = [F.col(f"o_{kind}").cast(kind) for kind in ORDERS]
    for batch, found in enumerate(batches):
        frame = spark.createDataFrame(found, f"device string, n int, {texts}")
        typed = frame.select("device", "n", *columns)
        write(typed, redis_connection, batch, order_by=tuple(typed.columns[2:]))
    assert {device for device, n in numbers(server).items() if n != "1"} == set()
    assert len(numbers(server)) == 2 * sum(map(len, ORDERS.values()))
    binary = devices(spark, ("a", 1)).withColumn("at", F.lit(b"1"))
    with pytest.raises(InvalidConnector, match="order_by='at' is a binary"):
        write(binary, redis_connection, 2, order_by=("at",))


def test_rows_without_a_usable_key_are_told(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    with pytest.raises(KeyIsNull, match=r"null in the key \(device\)"):
        write(devices(spark, (None, 1)), redis_connection, 0)
    with pytest.raises(KeyNotUnique):
        write(devices(spark, ("a", 1), ("a", 2)), redis_connection, 0)
    server.set("t:b", "not ours")
    with pytest.raises(KeyTaken, match="t:b is there and is no hash"):
        write(devices(spark, ("b", 1)), redis_connection, 0)
    assert server.get("t:b") == "not ours"
    write(devices(spark, ("a", 1), ("a", 2)), redis_connection, 0, order_by=("n",))
    assert server.hget("t:a", "n") == "2"


def test_every_type_comes_back_as_it_was(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    frame = spark.sql(
        """SELECT 'a:b' AS device, timestamp '2026-03-29 01:30:00.25Z' AS at, X'0D0AFF' AS raw,
           timestamp_ntz '2026-03-29 02:30:00' AS wall, date '2026-01-02' AS day, true AS is_on,
           1.5D AS celsius, 12.30BD AS price, 9007199254740993L AS big, '1\r\n$é€' AS words,
           named_struct('a', 1, 'b', array('x', null)) AS parts, map('k', 2) AS counts,
           cast(null AS int) AS nothing"""
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        # In this night the clocks of Vienna go from 2 to 3: 02:30 does not exist there.
        spark.conf.set("spark.sql.session.timeZone", "Europe/Vienna")
        write(frame, redis_connection, 0, key=("device", "at"))
        found = read(spark, redis_connection)
        assert found.collect() == frame.collect()
        assert found.schema.simpleString() == frame.schema.simpleString()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert list(server.scan_iter("t:*")) == ["t:a\\:b:2026-03-29T01:30:00.25Z"]


def test_no_two_keys_look_alike(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    pairs = [("a:b", "c"), ("a", "b:c"), ("a\\", ":b"), ("a\\:", "b"), ("", ":"), (":", "")]
    frame = spark.createDataFrame(pairs, "one string, two string")
    write(frame, redis_connection, 0, key=("one", "two"))
    assert sorted(map(tuple, read(spark, redis_connection).collect())) == sorted(pairs)


def test_many_rows_of_several_tasks_arrive_and_vanish(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    many = spark.range(0, 12_345, 1, 3).selectExpr("cast(id AS string) AS device", "id AS n")
    write(many, redis_connection, 0, mode=COMPLETE)
    found = read(spark, redis_connection).agg(F.count("device"), F.sum("n")).first()
    assert found == (12_345, sum(range(12_345)))
    write(many.where("n < 5"), redis_connection, 1, mode=COMPLETE)
    assert set(numbers(server)) == set("01234")


def test_a_batch_run_replaces_the_content(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    write(devices(spark, ("a", 1), ("b", 1)), redis_connection, 0, mode=APPEND)
    request = WriteRequest("result", APPEND, ("device",), redis_connection, Path(), managed="")
    redis("t").write_batch(devices(spark, ("b", 2)), request)
    assert numbers(server) == {"b": "2"}
    assert server.hgetall(LEDGER) == {"q": "0"}


def test_hashes_of_others_are_a_lookup_with_a_schema(
    spark: SparkSession, redis_connection: Connection, server: Redis
) -> None:
    server.hset("t:1", mapping={"site": "north", "floor": "3"})
    server.set("t:2", "no hash")
    found = read(spark, redis_connection, "site string, floor int, roof boolean").collect()
    assert found == [("north", 3, None)]
    with pytest.raises(InvalidConnector, match="their types are not known"):
        read(spark, redis_connection)


def test_a_wrong_password_and_a_missing_server_are_told_and_nothing_secret_is(
    spark: SparkSession, redis_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "_WAITS_S", ())
    wrong = {**redis_connection.options, "password": "sesame-1"}
    away = {**redis_connection.options, "url": "redis://127.0.0.1:1/0"}
    frame, found = devices(spark, ("a", 1)), {}
    for options in (wrong, away):
        connection = Connection("redis", options, "headwater.toml")
        request = WriteRequest("result", UPDATE, ("device",), connection, Path(), managed="")
        for ask in (
            lambda request=request: redis("t").check_writable(request),
            lambda request=request: redis("t").write_increment(frame, request, query="q", batch=0),
        ):
            with pytest.raises(HeadwaterError) as caught:
                ask()
            found.setdefault(type(caught.value), []).append(str(caught.value))
    assert [len(texts) for texts in found.values()] == [2, 2]
    assert set(found) == {DatabaseRefused, DatabaseUnreachable}
    assert "headwater services up redis" in found[DatabaseUnreachable][0]
    assert not [text for texts in found.values() for text in texts if "sesame-1" in text]


def test_a_task_without_access_is_told_like_the_driver(
    spark: SparkSession,
    redis_connection: Connection,
    server: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server changes its password between the driver's claim and the tasks."""
    old = redis_connection.require("password")
    send = _Writer._send

    def locked(self: _Writer, *arguments: Any) -> None:
        server.config_set("requirepass", "changed")
        send(self, *arguments)

    monkeypatch.setattr(_Writer, "_send", locked)
    try:
        with pytest.raises(DatabaseRefused) as caught:
            write(devices(spark, ("a", 1)), redis_connection, 0)
        assert old not in str(caught.value)
    finally:
        server.config_set("requirepass", old)


def test_a_server_that_was_killed_and_came_back_gets_the_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = services.up(tmp_path, "redis")
    connection = Connection("redis", services.connection(tmp_path, "redis"), "services up")
    try:
        write(devices(spark, ("a", 1), ("b", 1)), connection, 0)
        os.kill(place.pid, signal.SIGKILL)
        request = WriteRequest("result", UPDATE, ("device",), connection, Path(), managed="")
        with pytest.raises(DatabaseUnreachable):
            redis("t").check_writable(request)
        back = threading.Timer(1.0, services.up, (tmp_path, "redis"))
        back.start()
        frame = devices(spark, ("a", 2))
        redis("t").write_increment(frame, request, query="q", batch=1)
        back.join()
        found = sorted(read(spark, connection).collect())
        assert found == [("a", 2), ("b", 1)]
    finally:
        services.down(tmp_path, "redis")


def give(folder: Path, device: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / f".{device}").write_text(f'{{"device": "{device}"}}\n')
    (folder / f".{device}").rename(folder / "in" / f"{device}.json")


def test_a_server_that_is_away_for_longer_than_a_sink_waits_loses_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "_WAITS_S", (0.1,))
    monkeypatch.setattr(supervision, "FIRST_WAIT_S", 0.2)
    place = services.up(tmp_path, "redis")
    connection = Connection("redis", services.connection(tmp_path, "redis"), "services up")
    settings = Settings(tmp_path, connections={"redis": dict(connection.options)}, restarts=1)
    app = Pipeline("serving", settings=settings)
    app.source("devices", json("in"), schema="device string")
    app.table(name="seen", into=redis("t"), key="device", mode="update", unbounded_state=True)(
        lambda devices: devices.groupBy("device").count()
    )
    give(tmp_path, "a")
    events: list[Event] = []

    def attempts() -> list[str]:
        return [event.attempt for event in events if isinstance(event, QueryRestarting)]

    run = app.start(report=events.append)
    try:
        assert wait_until(lambda: run["seen"].last_batch == 0, timeout_s=300)
        os.kill(place.pid, signal.SIGKILL)
        give(tmp_path, "b")
        # More often than the budget of restarts: what is out of reach is waited for.
        assert wait_until(lambda: len(attempts()) >= 2, timeout_s=300)
        services.up(tmp_path, "redis")
        assert wait_until(lambda: run["seen"].last_batch == 1, timeout_s=300)
        found = sorted(tuple(row) for row in read(spark, connection).collect())
    finally:
        run.stop()
        services.down(tmp_path, "redis")
    assert attempts()[1] == "restart 2 until it is there (DATABASE_UNREACHABLE)"
    assert found == [("a", 1), ("b", 1)]


MODES = {
    "append": ([("a",), ("b",), ("c",)], lambda words: words),
    "update": ([("a", 2), ("b", 1), ("c", 1)], lambda words: words.groupBy("word").count()),
    "complete": ([("a", 2), ("b", 1), ("c", 1)], lambda words: words.groupBy("word").count()),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_between_the_sink_and_the_commit_changes_nothing(
    redis_connection: Connection, server: Redis, tmp_path: Path, mode: str
) -> None:
    expected, function = MODES[mode]
    connections = {"redis": dict(redis_connection.options)}
    app = Pipeline("serving", settings=Settings(tmp_path, connections=connections))
    app.source("words", kafka("words"), schema="word string")
    app.table(name="found", into=redis("t"), key="word", mode=mode, unbounded_state=True)(function)
    second = [("c",)] if mode == "append" else [("a",), ("c",)]
    Harness(app, keep=["found"]).run(
        add("words", [("a",), ("b",)]),
        process(),
        add("words", second),
        process(),
        crash("after_sink"),
        restart(),
        process(),
        check("found", expected),
    )
    rows = [tuple(row.values()) for row in content(server).values()]
    assert sorted(rows) == [tuple(map(str, row)) for row in expected]
