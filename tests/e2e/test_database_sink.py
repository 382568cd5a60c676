"""Tables written to a real database: exactly once, whatever happens on the way."""

from __future__ import annotations

import shutil
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import jdbc, json, kafka, mariadb, postgres, rate, waits
from headwater.connectors.dialects import Dialect, MariaDialect
from headwater.connectors.interface import ReadRequest, WriteRequest
from headwater.connectors.jdbc import Jdbc, _Writer
from headwater.definitions import OutputMode
from headwater.errors import (
    DatabaseRefused,
    DatabaseUnreachable,
    InvalidConnector,
    KeyNotUnique,
    RowsRefused,
    SavepointNotRestorable,
    SinkDoesNotFit,
)
from headwater.events import Event, QueryRestarting
from headwater.ledger.databases import Database, DatabaseLedger, Session, SqlFailed
from headwater.local import services
from headwater.local.processes import wait_until
from headwater.planning import render
from headwater.runtime import supervision
from headwater.runtime.query import QueryState
from headwater.runtime.savepoints import Savepoints
from headwater.runtime.storage import Storage
from headwater.settings import Connection, Settings
from headwater.testing import Harness, add, check, crash, process, restart

Ask = Callable[..., list[tuple[Any, ...]]]
STAGED = "table_name LIKE 'headwater_t%'"
SINKS: dict[str, Callable[[str], Jdbc]] = {
    "postgres": postgres,
    "mariadb": mariadb,
    "other": lambda table: jdbc(table, connection="other", driver="org.postgresql.Driver"),
}


@pytest.fixture(params=("postgres", "mariadb"))
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(system: str, request: pytest.FixtureRequest) -> Path:
    """The folder of a running server."""
    return Path(request.getfixturevalue(f"{system}_folder"))


@pytest.fixture
def connection(system: str, server: Path) -> Connection:
    return Connection(system, services.connection(server, system), "services up")


@pytest.fixture
def ask(spark: SparkSession, system: str, connection: Connection) -> Ask:
    """Runs a statement in the database, past everything that writes; its rows."""
    login = {name: connection.require(name) for name in ("user", "password")}

    def in_postgres(statement: str) -> list[tuple[Any, ...]]:
        address = connection.require("url").removeprefix("jdbc:")
        with psycopg.connect(address, **login) as database:
            cursor = database.execute(statement)  # type: ignore[call-overload]
            return [] if cursor.description is None else cursor.fetchall()

    def in_mariadb(statement: str) -> list[tuple[Any, ...]]:
        options = {"url": connection.require("url"), "driver": "org.mariadb.jdbc.Driver", **login}
        with Database(spark, options).session() as session:
            if statement.startswith("SELECT"):
                return session.rows(statement)
            session.execute(statement)
            return []

    return {"postgres": in_postgres, "mariadb": in_mariadb}[system]


@pytest.fixture
def target(ask: Ask, request: pytest.FixtureRequest) -> str:
    name = f"t_{abs(hash(request.node.name)) % 10**9}"
    ask(f"DROP TABLE IF EXISTS {name}")
    return name


def write(
    frame: DataFrame,
    table: str,
    connection: Connection,
    batch: int,
    *,
    query: str = "q",
    mode: OutputMode = OutputMode.APPEND,
    key: tuple[str, ...] = (),
    order_by: tuple[str, ...] = (),
) -> None:
    """One batch of a query, as the runtime writes it."""
    request = WriteRequest("result", mode, key, connection, Path(), managed="", order_by=order_by)
    sink = SINKS[connection.name](table)
    sink.prepare(frame.sparkSession, frame._jdf.schema().toDDL(), request)
    sink.write_increment(frame, request, query=query + table, batch=batch)


def rows(spark: SparkSession, *found: tuple[Any, ...], schema: str) -> DataFrame:
    return spark.createDataFrame(list(found), schema)


def test_a_batch_that_comes_again_is_left_out(
    spark: SparkSession, connection: Connection, target: str, ask: Ask
) -> None:
    for batch, number in [(0, 1), (1, 2), (1, 2), (0, 1), (2, 3)]:
        frame = rows(spark, (number,), schema="n int")
        write(frame, target, connection, batch)
    assert sorted(ask(f"SELECT n FROM {target}")) == [(1,), (2,), (3,)]
    request = WriteRequest("result", OutputMode.APPEND, (), connection, Path(), managed="")
    sink = SINKS[connection.name](target)
    assert sink.position(spark, request, f"q{target}") == "batch 2"
    # A fresh checkpoint has another id, and starts again at batch 0.
    write(rows(spark, (4,), schema="n int"), target, connection, 0, query="other")
    assert len(ask(f"SELECT n FROM {target}")) == 4
    assert ask(f"SELECT table_name FROM information_schema.tables WHERE {STAGED}") == []


def test_without_the_ledger_a_batch_would_be_written_twice(
    spark: SparkSession,
    connection: Connection,
    target: str,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DatabaseLedger, "last", lambda self, session: -1)
    monkeypatch.setattr(DatabaseLedger, "advance", lambda self, session, batch: True)
    for _ in range(2):
        write(rows(spark, (1,), schema="n int"), target, connection, 0)
    assert ask(f"SELECT count(*) FROM {target}") == [(2,)]


def test_rows_replace_those_of_their_key(
    spark: SparkSession, connection: Connection, target: str, ask: Ask
) -> None:
    moment = "2026-01-01 00:00:0"
    for batch, found in enumerate([[("a", 1, 1), ("b", 1, 1)], [("a", 2, 2)], [("a", 3, 1)]]):
        listed = [(device, n, f"{moment}{second}") for device, n, second in found]
        frame = rows(spark, *listed, schema="device string, n int, at string")
        typed = frame.withColumn("at", F.col("at").cast("timestamp"))
        write(
            typed,
            target,
            connection,
            batch,
            mode=OutputMode.UPDATE,
            key=("device",),
            order_by=("at",),
        )
    # The last row of a by its time is that of batch 1.
    assert sorted(ask(f"SELECT device, n FROM {target}")) == [("a", 2), ("b", 1)]


def test_of_several_rows_of_a_key_the_last_wins_or_none(
    spark: SparkSession, connection: Connection, target: str, ask: Ask
) -> None:
    frame = rows(spark, ("a", 1), ("a", 3), ("a", 2), schema="device string, n int")
    choice: dict[str, Any] = {"mode": OutputMode.UPDATE, "key": ("device",)}
    with pytest.raises(KeyNotUnique):
        write(frame, target, connection, 0, **choice)
    write(frame, target, connection, 0, order_by=("n",), **choice)
    assert ask(f"SELECT device, n FROM {target}") == [("a", 3)]


def test_complete_replaces_everything_at_once(
    spark: SparkSession, connection: Connection, target: str, ask: Ask
) -> None:
    for batch, found in enumerate([(1, 2), (3,)]):
        frame = rows(spark, *[(n,) for n in found], schema="n int")
        write(frame, target, connection, batch, mode=OutputMode.COMPLETE)
    assert ask(f"SELECT n FROM {target}") == [(3,)]
    empty = spark.createDataFrame([], "n int")
    write(empty, target, connection, 2, mode=OutputMode.COMPLETE)
    assert ask(f"SELECT n FROM {target}") == []


@pytest.mark.parametrize("system", ["postgres"], indirect=True)
def test_a_database_of_which_only_the_standard_is_known_gets_a_batch_once(
    spark: SparkSession,
    connection: Connection,
    target: str,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[Jdbc.__module__], "dialect_of", lambda url: Dialect())
    other = Connection("other", connection.options, "services up")
    schema, moment = "n int, word string, at timestamp", datetime(2026, 1, 1)
    for batch, number in [(0, 1), (1, 2), (1, 3), (0, 1), (2, 3)]:
        frame = rows(spark, (number, f"'{number}'", moment), schema=schema)
        write(frame, target, other, batch)
    kept = [(number, f"'{number}'", moment) for number in (1, 2, 3)]
    assert sorted(ask(f"SELECT * FROM {target}")) == kept
    for batch, number in [(0, 4), (1, 5), (1, 6), (0, 4)]:
        frame = rows(spark, (number, "all", moment), schema=schema)
        write(frame, target, other, batch, query="r", mode=OutputMode.COMPLETE)
    assert ask(f"SELECT * FROM {target}") == [(5, "all", moment)]
    with pytest.raises(InvalidConnector, match="is not known for this database"):
        write(frame, f"{target}_u", other, 0, mode=OutputMode.UPDATE, key=("n",))


TYPES = {
    "postgres": {
        "device": "text",
        "celsius": "double precision",
        "price": "numeric",
        "at": "timestamp with time zone",
        "day": "date",
        "is_on": "boolean",
        "parts": "jsonb",
        "raw": "bytea",
    },
    "mariadb": {
        "device": "varchar",
        "celsius": "double",
        "price": "decimal",
        "at": "datetime",
        "day": "date",
        "is_on": "tinyint",
        "parts": "longtext",
        "raw": "longblob",
    },
}
STORED = {
    "postgres": "parts->>'a' = '1' AND at = '2026-01-01 00:00Z' AND raw = '\\x01'",
    "mariadb": "JSON_VALUE(parts, '$.a') = '1' AND at = '2026-01-01 00:00' AND raw = X'01'",
}


def test_a_table_is_made_with_proper_types_and_its_key(
    spark: SparkSession, system: str, connection: Connection, target: str, ask: Ask
) -> None:
    frame = spark.sql(
        """SELECT 'a' AS device, 1.5D AS celsius, 12.30BD AS price, timestamp '2026-01-01' AS at,
           date '2026-01-02' AS day, true AS is_on, named_struct('a', 1) AS parts, X'01' AS raw"""
    )
    write(frame, target, connection, 0, mode=OutputMode.UPDATE, key=("device",))
    types = ask(
        "SELECT column_name, data_type FROM information_schema.columns "
        f"WHERE table_name = '{target}' ORDER BY ordinal_position"
    )
    assert dict(types) == TYPES[system]
    assert ask(f"SELECT device FROM {target} WHERE {STORED[system]}") == [("a",)]
    with pytest.raises((SqlFailed, psycopg.errors.UniqueViolation)):
        ask(f"INSERT INTO {target} (device) VALUES ('a')")


def test_what_was_written_is_read_as_it_was(
    spark: SparkSession, connection: Connection, target: str, tmp_path: Path
) -> None:
    frame = spark.sql("SELECT 'a' AS device, 1.5D AS celsius, timestamp '2026-01-01 12:00' AS at")
    write(frame, target, connection, 0)
    schema = "device string, celsius double, at timestamp"
    request = ReadRequest("devices", schema, connection, tmp_path)
    found = SINKS[connection.name](target).read_batch(spark, request)
    assert found.where("celsius > 1").collect() == frame.collect()


@pytest.mark.parametrize("system", ["mariadb"], indirect=True)
def test_without_its_session_options_mariadb_would_take_names_for_texts(
    spark: SparkSession, connection: Connection, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = rows(spark, ("a", 1), schema="device string, n int")
    monkeypatch.setattr(MariaDialect, "session", {})
    with pytest.raises(Exception, match="error in your SQL syntax"):
        write(frame, target, connection, 0)
    monkeypatch.undo()
    write(frame, target, connection, 0)


def test_a_table_that_does_not_fit_is_refused_before_the_write(
    spark: SparkSession, connection: Connection, target: str, ask: Ask
) -> None:
    frame = rows(spark, ("a", 1), schema="device string, n int")
    ask(f"CREATE TABLE {target} (device text)")
    with pytest.raises(SinkDoesNotFit, match="no column n"):
        write(frame, target, connection, 0)
    ask(f"ALTER TABLE {target} ADD n int, ADD owner text NOT NULL")
    with pytest.raises(SinkDoesNotFit, match="owner"):
        write(frame, target, connection, 0)
    ask(f"ALTER TABLE {target} DROP owner")
    with pytest.raises(SinkDoesNotFit, match="unique key"):
        write(frame, target, connection, 0, mode=OutputMode.UPDATE, key=("device",))


COLUMNS = {
    "postgres": "small smallint, n integer, big bigint, price numeric(10,2), celsius real, "
    "is_on boolean, day date, at timestamptz, parts jsonb, id uuid, note varchar(9), raw bytea, "
    "spent money",
    "mariadb": "small smallint, n int unsigned, big bigint unsigned, price decimal(10,2), "
    "celsius float, is_on boolean, day date, at datetime, note varchar(9), raw blob, of year",
}
HELD = [
    *(
        "n int",
        "n smallint",
        "n decimal(9,0)",
        "big int",
        "big bigint",
        "price int",
        "price double",
    ),
    *("price decimal(20,4)", "celsius float", "celsius double", "celsius bigint", "is_on boolean"),
    *("day string", "day date", "at string", "at timestamp", "at date", "raw binary"),
    *("note string", "note int", "note timestamp", "note struct<a: int>"),
]
HELD_BY = {
    "postgres": [
        *("id string", "parts string", "parts struct<a: int>", "parts array<int>"),
        *("parts map<string, int>", "raw string", "spent int"),
    ],
    "mariadb": ["n boolean", "is_on tinyint", "of int"],
}
NOT_HELD = [
    *("small int", "small bigint", "n bigint", "n double", "n float", "n decimal(10,2)"),
    *("n string", "n timestamp", "n struct<a: int>", "big decimal(20,0)", "big double"),
    *("big string", "price string", "price date", "celsius string", "is_on timestamp"),
    *("is_on string", "is_on int", "day int", "day boolean", "at bigint", "at array<int>"),
]
NOT_HELD_BY = {
    "postgres": ["n boolean", "id int", "parts timestamp", "raw int", "is_on tinyint"],
    "mariadb": [],
}


def test_a_column_that_cannot_hold_the_type_is_refused_before_the_write(
    spark: SparkSession, system: str, connection: Connection, target: str, ask: Ask
) -> None:
    ask(f"CREATE TABLE {target} ({COLUMNS[system]})")
    request = WriteRequest("result", OutputMode.APPEND, (), connection, Path(), managed="")
    for column in HELD + HELD_BY[system]:
        SINKS[system](target).prepare(spark, column, request)
    for column in NOT_HELD + NOT_HELD_BY[system]:
        with pytest.raises(SinkDoesNotFit, match=f"column {column.split()[0]} is"):
            SINKS[system](target).prepare(spark, column, request)


def test_both_types_are_told(
    spark: SparkSession, system: str, connection: Connection, target: str, ask: Ask
) -> None:
    ask(f"CREATE TABLE {target} (n int, celsius double precision)")
    frame = rows(spark, (1, "warm"), schema="n bigint, celsius string")
    with pytest.raises(SinkDoesNotFit) as caught:
        write(frame, target, connection, 0)
    integer, double = {"postgres": ("int4", "float8"), "mariadb": ("INT", "DOUBLE")}[system]
    told = f"column n is {integer}, given bigint; column celsius is {double}, given string"
    assert told in str(caught.value)


def test_texts_arrive_as_they_are(
    spark: SparkSession, connection: Connection, target: str, ask: Ask
) -> None:
    texts = [
        "",
        "\\",
        "\\N",
        "\\.",
        "a\tb\nc\r\nd",
        "\\t\\\\n",
        "'\",;{}",
        "é 漢 🙂",
        "x" * 100_000,
    ]
    given = [*enumerate(texts), (-1, None)]
    write(rows(spark, *given, schema="n int, word string"), target, connection, 0)
    assert sorted(ask(f"SELECT n, word FROM {target}")) == sorted(given)


@pytest.mark.parametrize("system", ["postgres"], indirect=True)
def test_numbers_and_bytes_arrive_as_they_are(
    spark: SparkSession, connection: Connection, target: str, ask: Ask
) -> None:
    schema = "f float, d double, p decimal(20,10), b bigint, t tinyint, is_on boolean, raw binary"
    narrow = struct.unpack("f", struct.pack("f", 0.1))[0]
    given = [
        (narrow, 0.1, Decimal("-0.0000000001"), -(2**63), -128, True, bytes(range(256))),
        (float("inf"), float("-inf"), Decimal("9999999999.5"), 2**63 - 1, 127, False, b""),
        (None,) * 7,
    ]
    ask(
        f"CREATE TABLE {target} (f float8, d float8, p numeric, b bigint, t smallint, "
        "is_on boolean, raw bytea)"
    )
    write(rows(spark, *given, schema=schema), target, connection, 0)
    assert ask(f"SELECT * FROM {target} ORDER BY b NULLS LAST") == given
    write(spark.sql("SELECT double('NaN') AS d"), target, connection, 1)
    assert ask(f"SELECT count(*) FROM {target} WHERE d = 'NaN'") == [(1,)]


@pytest.fixture
def zone(spark: SparkSession) -> Iterator[str]:
    """Spark's session in New York."""
    name, before = "America/New_York", spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", name)
    yield name
    spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.mark.parametrize("system", ["postgres"], indirect=True)
def test_moments_are_the_same_in_every_zone(
    spark: SparkSession, zone: str, connection: Connection, target: str, ask: Ask
) -> None:
    ask(f"CREATE TABLE {target} (at timestamptz, plain timestamp, wall timestamptz, day date)")
    frame = spark.sql(
        """SELECT timestamp_micros(1767225599000001) AS at, timestamp_micros(1) AS plain,
           timestamp_ntz '2026-07-01 12:00:00.5' AS wall, date '1582-10-04' AS day
           UNION ALL SELECT timestamp '+10000-01-01 00:00:00Z', NULL, NULL, date '+10000-01-01'"""
    )
    write(frame, target, connection, 0)
    first, last = ask(
        "SELECT (extract(epoch FROM at) * 1000000)::bigint, plain::text, wall, day::text "
        f"FROM {target} ORDER BY at"
    )
    noon = datetime(2026, 7, 1, 12, 0, 0, 500_000, UTC)
    assert first == (1767225599000001, "1970-01-01 00:00:00.000001", noon, "1582-10-04")
    assert last == (253402300800000000, None, None, "10000-01-01")


@pytest.mark.parametrize("system", ["postgres"], indirect=True)
def test_a_text_goes_into_the_type_of_its_column(
    spark: SparkSession, connection: Connection, target: str, ask: Ask
) -> None:
    ask(f"CREATE TYPE {target}_mood AS ENUM ('sad', 'glad')")
    ask(f"CREATE TABLE {target} (id uuid, parts jsonb, mood {target}_mood, day date, every int[])")
    values = (
        "00000000-0000-0000-0000-000000000001",
        '{"a": "x\\ty"}',
        "glad",
        "2026-01-02",
        "{1,2}",
    )
    schema = "id string, parts string, mood string, day string, every string"
    write(rows(spark, values, schema=schema), target, connection, 0)
    found = ask(f"SELECT id::text, parts->>'a', mood::text, day::text, every FROM {target}")
    assert found == [(values[0], "x\ty", "glad", "2026-01-02", [1, 2])]


VALUES = {"postgres": ("uuid", "b" * 36), "mariadb": ("varchar(3)", "long")}
GOOD = {"postgres": "00000000-0000-0000-0000-000000000001", "mariadb": "abc"}


def test_a_wrong_value_is_named_and_nothing_of_its_batch_is_written(
    spark: SparkSession, system: str, connection: Connection, target: str, ask: Ask
) -> None:
    kind, wrong = VALUES[system]
    ask(f"CREATE TABLE {target} (id {kind})")
    frame = rows(spark, (GOOD[system],), (wrong,), schema="id string").coalesce(1)
    # Other tests may have left some of theirs, as a table does that is not written to again.
    staging = f"SELECT table_name FROM information_schema.tables WHERE {STAGED}"
    others = set(ask(staging))
    with pytest.raises(RowsRefused, match=r"column '?id") as caught:
        write(frame, target, connection, 0)
    assert connection.require("password") not in str(caught.value)
    [(staged,)] = set(ask(staging)) - others
    assert ask(f"SELECT count(*) FROM {staged}") == [(0,)]
    write(frame.limit(1), target, connection, 0)
    assert ask(f"SELECT count(*) FROM {target}") == [(1,)]


def test_a_constraint_of_the_table_is_named(
    spark: SparkSession, connection: Connection, target: str, ask: Ask
) -> None:
    ask(f"CREATE TABLE {target} (n int NOT NULL)")
    with pytest.raises(RowsRefused, match="null"):
        write(rows(spark, (None,), schema="n int"), target, connection, 0)
    assert ask(f"SELECT count(*) FROM {target}") == [(0,)]


def test_fewer_writers_lose_no_rows(
    spark: SparkSession, system: str, connection: Connection, target: str, ask: Ask
) -> None:
    factory: Callable[..., Jdbc] = SINKS[system]
    sink = factory(target, options={"numpartitions": 1})
    request = WriteRequest("result", OutputMode.APPEND, (), connection, Path(), managed="")
    sink.prepare(spark, "id bigint", request)
    sink.write_increment(spark.range(0, 100, 1, 4).toDF("id"), request, query=target, batch=0)
    assert ask(f"SELECT count(*) FROM {target}") == [(100,)]


@pytest.mark.parametrize("system", ["postgres"], indirect=True)
def test_a_connection_that_is_cut_during_the_load_is_tried_again(
    spark: SparkSession, connection: Connection, target: str, ask: Ask, tmp_path: Path
) -> None:
    is_cut = tmp_path / "cut"

    def held_up(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            assert wait_until(is_cut.exists, timeout_s=300)

    def cut() -> None:
        backend = "FROM pg_stat_activity WHERE query LIKE 'COPY %' AND state = 'active'"
        assert wait_until(lambda: bool(ask(f"SELECT pid {backend}")), timeout_s=300)
        ask(f"SELECT pg_terminate_backend(pid, 60000) {backend}")
        is_cut.touch()

    frame = spark.range(0, 50_000, 1, 1).mapInArrow(held_up, "id bigint")
    cutter = threading.Thread(target=cut)
    cutter.start()
    write(frame, target, connection, 0)
    cutter.join()
    assert is_cut.exists()
    assert ask(f"SELECT count(*), count(DISTINCT id) FROM {target}") == [(50_000, 50_000)]


@pytest.mark.parametrize("system", ["postgres"], indirect=True)
def test_no_plan_and_no_job_shows_the_password(
    spark: SparkSession, connection: Connection, target: str, tmp_path: Path
) -> None:
    password = connection.require("password")
    plain = {"postgres": {**connection.options, "password": password}}
    app = Pipeline("db", settings=Settings(tmp_path, connections=plain))
    app.source("numbers", rate())
    app.table(name="found", into=postgres(target))(lambda numbers: numbers)
    plan = app.plan()
    texts = [render.as_text(plan), render.settings_text(plan), render.explain_text(plan, "found")]
    write(rows(spark, (1,), schema="n int"), target, connection, 0)
    context: Any = spark.sparkContext._jsc
    store: Any = spark._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
    executions = store.executionsList()
    run = next(
        found
        for found in map(executions.apply, reversed(range(executions.size())))
        if "headwater_attempt" in found.physicalPlanDescription()
    )
    jobs = context.sc().statusStore().jobsList(None)
    texts += [run.physicalPlanDescription(), run.description(), run.details()]
    texts += [run.modifiedConfigs().toString()]
    texts += [f"{job.name()} {job.description()}" for job in map(jobs.apply, range(jobs.size()))]
    assert not [text for text in texts if password in text]


def test_a_wrong_password_is_told_at_once_and_never_shown(
    spark: SparkSession, connection: Connection, target: str
) -> None:
    wrong = {**connection.options, "password": "sesame-1"}
    frame = rows(spark, (1,), schema="n int")
    with pytest.raises(DatabaseRefused) as caught:
        write(frame, target, Connection(connection.name, wrong, "headwater.toml"), 0)
    assert "sesame-1" not in str(caught.value)
    address = connection.require("url").partition("//")[0]
    away = {**connection.options, "url": f"{address}//127.0.0.1:1/none"}
    with pytest.raises(DatabaseUnreachable):
        write(frame, target, Connection(connection.name, away, "headwater.toml"), 0)


def test_an_attempt_that_does_not_count_is_not_merged(
    spark: SparkSession,
    connection: Connection,
    target: str,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task that was tried twice leaves rows of both attempts in the staging table."""
    stage = _Writer._stage

    def staged_twice(self: _Writer, session: Session, frame: DataFrame, staging: str) -> list[str]:
        attempts = stage(self, session, frame, staging)
        session.execute(f"INSERT INTO {staging} SELECT n, 'lost' FROM {staging}")
        return attempts

    monkeypatch.setattr(_Writer, "_stage", staged_twice)
    write(rows(spark, (1,), (2,), schema="n int"), target, connection, 0)
    assert sorted(ask(f"SELECT n FROM {target}")) == [(1,), (2,)]


def test_a_second_driver_cannot_make_a_batch_vanish(
    spark: SparkSession,
    connection: Connection,
    target: str,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between staging and merge of one driver another one begins with the same batch."""
    stage, frame = _Writer._stage, rows(spark, (1,), (2,), schema="n int")

    def overtaken(self: _Writer, session: Session, frame: DataFrame, staging: str) -> list[str]:
        attempts = stage(self, session, frame, staging)
        self._drop_leftovers(session, f"q{target}")
        stage(self, session, frame, self._staging(f"q{target}"))
        return attempts

    monkeypatch.setattr(_Writer, "_stage", overtaken)
    with pytest.raises(SqlFailed):
        write(frame, target, connection, 0)
    monkeypatch.setattr(_Writer, "_stage", stage)
    write(frame, target, connection, 0)
    assert sorted(ask(f"SELECT n FROM {target}")) == [(1,), (2,)]


def test_a_server_that_restarts_in_the_middle_of_a_merge_loses_nothing(
    spark: SparkSession,
    connection: Connection,
    system: str,
    server: Path,
    restarted: Callable[[Path, str], None],
    target: str,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merge, merges = _Writer._merge, []

    def interrupted(self: _Writer, session: Session, *what: Any) -> None:
        merge(self, session, *what)
        merges.append(1)
        if len(merges) == 1:
            restarted(server, system)

    write(rows(spark, (1,), schema="n int"), target, connection, 0)
    monkeypatch.setattr(_Writer, "_merge", interrupted)
    write(rows(spark, (2,), (3,), schema="n int"), target, connection, 1)
    assert len(merges) == 2
    assert sorted(ask(f"SELECT n FROM {target}")) == [(1,), (2,), (3,)]


def give(folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / f".{number}").write_text(f'{{"n": {number}}}\n')
    (folder / f".{number}").rename(folder / "in" / f"{number}.json")


def test_a_server_that_is_away_for_longer_than_a_sink_waits_loses_nothing(
    spark: SparkSession,
    connection: Connection,
    system: str,
    server: Path,
    target: str,
    ask: Ask,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waits, "_WAITS_S", (0.1,))
    monkeypatch.setattr(supervision, "FIRST_WAIT_S", 0.2)
    connections = {system: dict(connection.options)}
    app = Pipeline("db", settings=Settings(tmp_path, connections=connections, restarts=1))
    app.source("numbers", json("in"), schema="n int")
    app.table(name="found", into=SINKS[system](target))(lambda numbers: numbers)
    give(tmp_path, 1)
    events: list[Event] = []

    def attempts() -> list[str]:
        return [event.attempt for event in events if isinstance(event, QueryRestarting)]

    run = app.start(report=events.append)
    try:
        wait_for(lambda: ask(f"SELECT n FROM {target}") == [(1,)])
        services.down(server, system)
        give(tmp_path, 2)
        # More often than the budget of restarts: what is out of reach is waited for.
        wait_for(lambda: len(attempts()) >= 2)
        wait_for(lambda: run["found"].state is QueryState.RESTARTING)
        services.up(server, system)
        give(tmp_path, 3)
        wait_for(lambda: len(ask(f"SELECT n FROM {target}")) >= 3)
    finally:
        services.up(server, system)
        run.stop()
    assert attempts()[1] == "restart 2 until it is there (DATABASE_UNREACHABLE)"
    assert sorted(ask(f"SELECT n FROM {target}")) == [(1,), (2,), (3,)]


def test_a_savepoint_is_refused_where_the_database_has_gone_on(
    spark: SparkSession, connection: Connection, system: str, target: str, ask: Ask, tmp_path: Path
) -> None:
    settings = Settings(tmp_path, connections={system: dict(connection.options)})
    app = Pipeline("db", settings=settings)
    app.source("numbers", json("in"), schema="n int")
    app.table(name="found", into=SINKS[system](target))(lambda numbers: numbers)
    give(tmp_path, 1)
    app.refresh()
    storage, plan = Storage(settings.storage_root, "db"), app.plan()
    savepoints = Savepoints(spark, settings, storage, plan.graph)
    savepoints.create("first", plan.queries)
    give(tmp_path, 2)
    app.refresh()
    into = f"{system} table {target}"
    with pytest.raises(SavepointNotRestorable, match=f"has written batches 1 to 1 into {into}"):
        savepoints.restore("first", plan.queries)
    # On another machine, with an older copy of the storage, only the database knows.
    shutil.rmtree(storage.checkpoint("found"))
    told = f"{into} of found was at batch 0 and is at batch 1"
    with pytest.raises(SavepointNotRestorable, match=told):
        savepoints.restore("first", plan.queries)
    assert sorted(ask(f"SELECT n FROM {target}")) == [(1,), (2,)]


def wait_for(condition: Callable[[], bool]) -> None:
    assert wait_until(condition, timeout_s=300)


MODES = {
    "append": ((), [("a",), ("a",), ("b",)], lambda words: words),
    "update": (("word",), [("a", 2), ("b", 1)], lambda words: words.groupBy("word").count()),
    "complete": ((), [("a", 2), ("b", 1)], lambda words: words.groupBy("word").count()),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_between_the_sink_and_the_commit_changes_nothing(
    system: str, connection: Connection, target: str, ask: Ask, tmp_path: Path, mode: str
) -> None:
    key, expected, function = MODES[mode]
    connections = {system: dict(connection.options)}
    app = Pipeline("db", settings=Settings(tmp_path, connections=connections))
    app.source("words", kafka("words"), schema="word string")
    app.table(name="found", into=SINKS[system](target), key=key, mode=mode, unbounded_state=True)(
        function
    )
    Harness(app, keep=["found"]).run(
        add("words", [("a",), ("b",)]),
        process(),
        add("words", [("a",)]),
        process(),
        crash("after_sink"),
        restart(),
        process(),
        check("found", expected),
    )
    assert sorted(ask(f"SELECT * FROM {target}")) == expected
