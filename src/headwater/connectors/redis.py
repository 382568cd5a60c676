"""Redis: a result table as one hash per key.

<prefix>:<key>              a row, a field per column
headwater:ledger            what was written by which query and batch (`headwater.ledger.redis`)
headwater:tables            <prefix> -> the columns of its rows
headwater:keys:<prefix>     the keys of a table's rows
"""

from __future__ import annotations

import importlib.util
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast
from urllib.parse import urlsplit

from headwater.connectors.interface import (
    ALL_MODES,
    Connector,
    Idempotence,
    ReadRequest,
    WriteRequest,
    batch_by_batch,
    run_through,
    struct_type,
)
from headwater.connectors.resp import NO_HASH, Job, field_named, order_kind, read_back
from headwater.connectors.upserts import one_row_per_key
from headwater.connectors.waits import waits_s
from headwater.definitions import OutputMode
from headwater.errors import (
    ClientPackageMissing,
    DatabaseRefused,
    DatabaseUnreachable,
    HeadwaterError,
    InvalidConnector,
    KeyIsNull,
    KeyNotUnique,
    KeyTaken,
    NotReadable,
    WriterFenced,
)
from headwater.ledger.redis import RedisLedger, Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType
    from redis import Redis as Client

    from headwater.settings import Connection

TABLES = "headwater:tables"
_OURS = "headwater"
_AT_ONCE = 5_000
"""Keys that one script removes."""
_PARTLY = "rows of the batch may be there; it is not recorded, and comes again as a whole"


@dataclass(frozen=True, slots=True)
class Redis(Connector):
    """Hashes in Redis. See `redis`."""

    system: ClassVar[str] = "redis"
    needs_connection: ClassVar[bool] = True
    reads_batches: ClassVar[bool] = True
    writes: ClassVar[bool] = True
    writes_increments: ClassVar[bool] = True
    keeps_columns: ClassVar[bool] = True
    prepares: ClassVar[bool] = True

    prefix: str
    connection: str | None = None

    # Reading

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        raise NotReadable(
            self.system,
            "stream",
            found="hashes that change in place have no order in which to read them",
            remedy="declare it with lookup(…) instead of source(…)",
        )

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        server = _server(request.connection)
        with _explained(request), _closing(server) as client:
            stored = cast(bytes | None, client.hget(TABLES, self.prefix))
        schema = request.schema or (None if stored is None else stored.decode())
        if schema is None:
            raise InvalidConnector(
                self.system,
                f"Headwater wrote no hashes {self.prefix}:… yet, so their types are not known",
                remedy="write the table first, or say the columns: "
                f'lookup({request.name!r}, …, schema="…")',
            )
        keys = None if stored is None else keys_of(self.prefix)
        return read_back(spark, server, struct_type(schema), prefix=self.prefix, keys=keys)

    # Writing

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return ALL_MODES if has_key else frozenset()

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        return Idempotence(
            True,
            "a row has one place, its key, and a batch's number follows its rows",
            "one Redis server keeps what it acknowledged (appendonly yes, appendfsync always, "
            "maxmemory-policy noeviction) and nobody else writes these keys or those of "
            "headwater:ledger",
        )

    def check_writable(self, request: WriteRequest) -> None:
        with _explained(request), _closing(_server(request.connection)) as client:
            client.ping()

    def prepare(self, spark: SparkSession, schema: str, request: WriteRequest) -> None:
        """Notes the columns, so that rows can be read back with their types."""
        order_of(request, struct_type(schema))
        with _explained(request), _closing(_server(request.connection)) as client:
            client.hset(TABLES, self.prefix, schema)

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        return batch_by_batch(self, frame, request)

    def write_increment(
        self, frame: DataFrame, request: WriteRequest, *, query: str, batch: int
    ) -> None:
        writer = self._writer(request)
        for wait_s in waits_s():
            try:
                with _explained(request, batch):
                    writer.write(frame, RedisLedger(query), batch)
                return
            except DatabaseUnreachable:
                if wait_s is None:
                    raise
                # Redis is away: the waits are few and bounded, and nobody tells its return.
                time.sleep(wait_s)

    def position(self, spark: SparkSession, request: WriteRequest, query: str) -> str | None:
        with _explained(request, 0), _closing(_server(request.connection)) as client:
            return f"batch {RedisLedger(query).last(client)}"

    def write_batch(self, frame: DataFrame, request: WriteRequest) -> None:
        self.prepare(frame.sparkSession, frame._jdf.schema().toDDL(), request)
        with _explained(request, 0):
            self._writer(request).replace(frame)

    def forget(self, connection: Connection | None) -> None:
        """Removes the table's hashes, and what is kept about them."""
        with _closing(_server(connection)) as client:
            for key in client.scan_iter(match=f"{self.prefix}:*"):
                client.unlink(key)
            client.unlink(keys_of(self.prefix))
            client.hdel(TABLES, self.prefix)

    def place(self, base: Path, connection: str) -> str | None:
        return f"{connection}: {self.prefix}:…"

    def describe(self) -> str:
        return f"redis hashes {self.prefix}:…"

    # Inside

    def _writer(self, request: WriteRequest) -> _Writer:
        return _Writer(_server(request.connection), self.prefix, request)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes batches of one table."""

    server: Server
    prefix: str
    request: WriteRequest

    def write(self, frame: DataFrame, ledger: RedisLedger, batch: int) -> None:
        mode = self.request.mode
        with _closing(self.server) as client:
            if not ledger.take(client, batch, cleared=self._scratch):
                run_through(frame)
                return
            if mode is OutputMode.COMPLETE:
                self._replace(client, frame, ledger)
            else:
                rows = frame if mode is OutputMode.APPEND else self._one_per_key(frame)
                self._send(rows, ledger, mode, keys_of(self.prefix))
            ledger.advance(client, batch)

    def replace(self, frame: DataFrame) -> None:
        """The content of a batch run instead of what is there."""
        ledger = RedisLedger(f"batch/{uuid.uuid4().hex}")
        with _closing(self.server) as client:
            ledger.take(client, 0, cleared=self._scratch)
            self._replace(client, frame, ledger)
            ledger.forget(client)

    def _replace(self, client: Client, frame: DataFrame, ledger: RedisLedger) -> None:
        """Rows first, then the keys that vanished: nobody finds less than there is."""
        keys = keys_of(self.prefix)
        rows, complete = self._one_per_key(frame), OutputMode.COMPLETE
        self._send(rows, ledger, complete, keys, self._scratch[0])
        sets = [keys, *self._scratch]
        removed, which = _AT_ONCE, "first"
        while removed == _AT_ONCE:
            removed = ledger.call(client, _REMOVE_VANISHED, sets, which, str(_AT_ONCE))
            which = "next"

    def _one_per_key(self, frame: DataFrame) -> DataFrame:
        return one_row_per_key(frame, self.request.key, self.request.order_by)

    def _send(self, frame: DataFrame, ledger: RedisLedger, mode: OutputMode, *sets: str) -> None:
        job = Job(
            self.server,
            ledger.query,
            ledger.claim,
            columns=tuple(frame.columns),
            listed=sets,
            order=order_of(self.request, frame.schema) if mode is OutputMode.UPDATE else (),
            is_append=mode is OutputMode.APPEND,
        )
        job.send(frame, self.prefix, self.request.key)

    @property
    def _scratch(self) -> list[str]:
        """Sets of keys while a batch is written: those of its rows, those that vanish."""
        return [f"{keys_of(self.prefix)}/{part}" for part in ("rows", "vanished")]


_REMOVE_VANISHED = """
if ARGV[3] == 'first' then redis.call('SDIFFSTORE', KEYS[4], KEYS[2], KEYS[3]) end
local vanished = redis.call('SPOP', KEYS[4], ARGV[4])
for _, key in ipairs(vanished) do
  redis.call('DEL', key)
  redis.call('SREM', KEYS[2], key)
end
if #vanished < tonumber(ARGV[4]) then redis.call('UNLINK', KEYS[3], KEYS[4]) end
return #vanished
"""


def keys_of(prefix: str) -> str:
    """The set that holds the keys of a table's rows."""
    return f"{_OURS}:keys:{prefix}"


def order_of(request: WriteRequest, schema: StructType) -> tuple[tuple[str, str], ...]:
    """The columns of `order_by` with the way in which their texts are compared."""
    found = []
    for name in request.order_by:
        field = field_named(schema, name)
        kind = None if field is None else order_kind(field.dataType)
        if field is None or kind is None:
            what = "no column" if field is None else f"a {field.dataType.simpleString()}"
            raise InvalidConnector(
                "redis",
                f"table {request.table!r}: order_by={name!r} is {what}",
                expected="a column with a number, a text, a date or a timestamp",
            )
        found.append((field.name, kind))
    return tuple(found)


def _server(connection: Connection | None) -> Server:
    if connection is None:
        raise InvalidConnector("redis", "no connection was given")
    if importlib.util.find_spec("redis") is None:
        raise ClientPackageMissing(system="redis", package="redis", extra="redis")
    url = connection.require("url")
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise InvalidConnector(
            "redis",
            f"the url of connection {connection.name!r} is no address of a Redis server",
            expected="redis://host:6379/0, or rediss:// with TLS",
        )
    if parts.password or "password=" in parts.query:
        raise InvalidConnector(
            "redis",
            f"the url of connection {connection.name!r} holds a password",
            remedy='say it beside the url: password = "env:REDIS_PASSWORD"',
        )
    return Server(url, connection.get("user"), connection.get("password"))


@contextmanager
def _closing(server: Server) -> Iterator[Client]:
    client = server.client()
    try:
        yield client
    finally:
        client.close()


@contextmanager
def _explained(request: ReadRequest | WriteRequest, batch: int = 0) -> Iterator[None]:
    """What Redis, or a task that wrote to it, failed with, in our words."""
    import redis

    try:
        yield
    except redis.AuthenticationError as failure:
        raise _refused(request, str(failure)) from None
    except (redis.ConnectionError, redis.TimeoutError) as failure:
        raise _unreachable(request, str(failure)) from None
    except HeadwaterError:
        raise
    except Exception as failure:
        told = _told(str(failure), request, batch)
        if told is None:
            raise
        raise told from failure


def _told(text: str, request: ReadRequest | WriteRequest, batch: int) -> HeadwaterError | None:
    """An error of which Spark, or a script, hands on the text only."""
    if found := re.search(rf"{DatabaseUnreachable.code}: (.*)", text):
        return _unreachable(request, found.group(1))
    if found := re.search(rf"{DatabaseRefused.code}: (.*)", text):
        return _refused(request, found.group(1))
    if not isinstance(request, WriteRequest):
        return None
    table, key = request.table, request.key
    if WriterFenced.code in text:
        return WriterFenced(table, batch)
    if KeyNotUnique.code in text:
        return KeyNotUnique(table, key, batch, data=_PARTLY)
    if KeyIsNull.code in text:
        return KeyIsNull(table, key, batch, data=_PARTLY)
    if found := re.search(rf"{KeyTaken.code} \((.*)\)", text):
        return KeyTaken(
            table,
            batch,
            f"{found.group(1)} is there with other values; the key is ({', '.join(key)})",
            remedy="name columns that tell all rows apart in key=[…], or let rows replace others "
            'with mode="update"',
            data=_PARTLY,
        )
    if found := re.search(rf"{NO_HASH} \((.*)\)", text):
        return KeyTaken(
            table,
            batch,
            f"{found.group(1)} is there and is no hash",
            remedy="choose another prefix, or remove what is there",
            data=_PARTLY,
        )
    return None


def _name(request: ReadRequest | WriteRequest) -> str:
    return request.table if isinstance(request, WriteRequest) else request.name


def _unreachable(request: ReadRequest | WriteRequest, reason: str) -> DatabaseUnreachable:
    assert request.connection is not None
    connection = request.connection
    return DatabaseUnreachable(_name(request), connection.name, reason, connection.origin)


def _refused(request: ReadRequest | WriteRequest, reason: str) -> DatabaseRefused:
    assert request.connection is not None
    connection = request.connection
    return DatabaseRefused(_name(request), connection.name, reason, connection.origin)


def redis(prefix: str, *, connection: str | None = None) -> Redis:
    """Hashes in Redis, one per row: `<prefix>:<key>`, a field per column; null is no field.

    Writing: with the table's `key`, which names the hash. Append (a key that is there with other
    values is an error), update (a row replaces the one of its key; `order_by` keeps a later one),
    complete (keys that vanished are removed). Exactly once: a batch that comes again leaves the
    same hashes, and its number is recorded beside them once all are there; a second driver is shut
    out. Readers may see a batch half written. A batch run replaces the content. While Redis is away
    a batch is tried again for half a minute.

    Reading: as a lookup or a batch input, through one task; hashes that others wrote need a schema.
    The connection gives `url` (`redis://host:6379/0`), and `user` and `password` where needed.

    >>> redis("device_minutes").describe()
    'redis hashes device_minutes:…'
    """
    if not prefix or prefix == _OURS or prefix.startswith(f"{_OURS}:"):
        raise InvalidConnector(
            "redis",
            f"prefix={prefix!r} is taken by Headwater's own keys" if prefix else "an empty prefix",
            expected="a name before the keys, such as redis('orders')",
        )
    return Redis(prefix, connection)
