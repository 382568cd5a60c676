"""Rows in the protocol of Redis: written by the JVM, handed on by Python in bulk.

An expression turns every row into the text of its arguments. A task's Python receives such texts
as Arrow columns, whose bytes lie one behind the other, and sends them as they are: one command for
many rows, which a script in the server takes apart. So Python touches no row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from headwater.errors import DatabaseRefused, DatabaseUnreachable, KeyIsNull
from headwater.ledger.redis import LEDGER, Server, guarded
from headwater.schemas import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType
    from redis import RedisError

NO_HASH = "NO_HASH"
_ROWS = 1000
"""Of one command: the server does nothing else for some 10 ms."""
_ARGUMENTS = 200_000
_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"

_WRITE = """
local job = cjson.decode(ARGV[3])
local width = #job.columns

local function below(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local compare = {
  text = below,
  time = function(a, b) return below(string.sub(a, 1, -2), string.sub(b, 1, -2)) end,
  number = function(a, b) return tonumber(a) < tonumber(b) end,
  integer = function(a, b)
    local is_minus = string.byte(a) == 45
    if is_minus ~= (string.byte(b) == 45) then return is_minus end
    if #a ~= #b then return (#a < #b) ~= is_minus end
    return below(a, b) ~= is_minus
  end,
}

local function is_older(key, row)
  for _, order in ipairs(job.order) do
    local new, old = row[order.column], redis.call('HGET', key, order.column) or nil
    if new ~= old then
      if not old then return false end
      return not new or compare[order.kind](new, old)
    end
  end
  return false
end

local function is_same(key, fields, row)
  if redis.call('HLEN', key) * 2 ~= #fields then return false end
  for name, value in pairs(row) do
    if redis.call('HGET', key, name) ~= value then return false end
  end
  return true
end

local last, at = #ARGV, 4
while at <= last do
  local key, fields, row = ARGV[at], {}, {}
  for i = 1, width do
    local text = ARGV[at + i]
    if string.byte(text) == 49 then
      local value = string.sub(text, 2)
      row[job.columns[i]] = value
      fields[#fields + 1] = job.columns[i]
      fields[#fields + 1] = value
    end
  end
  local kind = redis.call('TYPE', key).ok
  local is_there = kind == 'hash'
  if not is_there and kind ~= 'none' then
    return redis.error_reply('NO_HASH (' .. key .. ')')
  end
  if is_there and job.is_append and not is_same(key, fields, row) then
    return redis.error_reply('KEY_TAKEN (' .. key .. ')')
  end
  if not (is_there and (job.is_append or is_older(key, row))) then
    if is_there then redis.call('DEL', key) end
    redis.call('HSET', key, unpack(fields))
  end
  for i = 2, #KEYS do redis.call('SADD', KEYS[i], key) end
  at = at + width + 1
end
return 1
"""


@dataclass(frozen=True, slots=True)
class Job:
    """Rows of one batch on their way to a server. `listed` are the sets that their keys go to."""

    server: Server
    query: str
    claim: str
    columns: tuple[str, ...]
    listed: tuple[str, ...]
    order: tuple[tuple[str, str], ...] = ()
    """Columns by which a row is older than the one that is there, each with its kind."""
    is_append: bool = False

    def send(self, frame: DataFrame, prefix: str, key: tuple[str, ...]) -> None:
        """Writes the rows, each as the hash `<prefix>:<key>`. Raises RowsRefused."""
        arguments = frame.select(row_arguments(frame.schema, prefix, key).alias("row"))

        def sent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow

            problem = _send(self, batches)
            if problem is not None:
                yield pyarrow.RecordBatch.from_pydict({"problem": [problem]})

        # A problem is handed back: Spark would try a task that raises again, and end its Python.
        if problems := arguments.mapInArrow(sent, "problem string").collect():
            raise RowsRefused(problems[0][0])


class RowsRefused(Exception):
    """What a task was answered when it wrote rows: a code of ours with more, or words of Redis."""


def _send(job: Job, batches: Iterator[pa.RecordBatch]) -> str | None:
    """In a task: hands the texts of its rows to the server; what went wrong."""
    from redis import RedisError

    client = job.server.client()
    connection: Any = None
    rows = max(1, min(_ROWS, _ARGUMENTS // (len(job.columns) + 1)))
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, rows):
                part = batch.column(0).slice(start, rows)
                connection = connection or client.connection_pool.get_connection()
                connection.send_packed_command([_head(job, len(part)), _bytes(part)])
                connection.read_response()
    except RedisError as problem:
        return _worded(problem)
    finally:
        if connection is not None:
            connection.disconnect()
        client.close()
    return None


def _worded(problem: RedisError) -> str:
    from redis import AuthenticationError, ConnectionError, TimeoutError

    if isinstance(problem, AuthenticationError):
        return f"{DatabaseRefused.code}: {problem}"
    if isinstance(problem, ConnectionError | TimeoutError):
        return f"{DatabaseUnreachable.code}: {problem}"
    return str(problem)


def _head(job: Job, rows: int) -> bytes:
    """A command up to the arguments of its rows."""
    about = {
        "columns": job.columns,
        "order": [{"column": column, "kind": kind} for column, kind in job.order],
        "is_append": job.is_append,
    }
    keys = [LEDGER, *job.listed]
    words = ["EVAL", guarded(_WRITE), str(len(keys)), *keys, job.query, job.claim]
    texts = [word.encode() for word in [*words, json.dumps(about)]]
    count = len(texts) + rows * (len(job.columns) + 1)
    return b"*%d\r\n" % count + b"".join(b"$%d\r\n%b\r\n" % (len(t), t) for t in texts)


def _bytes(column: Any) -> memoryview:
    """The bytes of a column of texts, one behind the other."""
    import numpy
    import pyarrow

    is_large = pyarrow.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    places = numpy.frombuffer(offsets, dtype=numpy.int64 if is_large else numpy.int32)
    first, last = places[column.offset], places[column.offset + len(column)]
    return memoryview(data)[first:last]


def row_arguments(schema: StructType, prefix: str, key: tuple[str, ...]) -> Column:
    """The arguments of a row: its key, then every value behind a mark, `1`, or `0` for null."""
    from pyspark.sql import functions as F

    values = [_value(_text(field.name, field.dataType)) for field in schema]
    return F.concat(_argument(_key(schema, prefix, key).cast("binary")), *values)


def field_named(schema: StructType, name: str) -> StructField | None:
    """A column by its name, as Spark finds it: in upper or lower case."""
    return next((field for field in schema if field.name.lower() == name.lower()), None)


def _key(schema: StructType, prefix: str, key: tuple[str, ...]) -> Column:
    from pyspark.sql import functions as F

    fields = [field_named(schema, name) for name in key]
    parts = [_key_part(f.name, f.dataType, len(key) > 1) for f in fields if f is not None]
    text = F.concat(F.lit(f"{prefix}:"), F.concat_ws(":", *parts))
    nobody = F.raise_error(F.lit(KeyIsNull.code)).cast("string")
    is_null = F.lit(False)
    for name in key:
        is_null = is_null | F.col(quoted(name)).isNull()
    return F.when(is_null, nobody).otherwise(text)


def _key_part(name: str, kind: DataType, is_one_of_several: bool) -> Column:
    """A value as part of a key. Only texts need an escape: other types always have the same
    number of colons, so that two keys are never written alike."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.BinaryType):
        return F.hex(F.col(quoted(name)))
    text = _text(name, kind)
    if not is_one_of_several or not isinstance(
        kind, T.StringType | T.StructType | T.ArrayType | T.MapType
    ):
        return text
    return F.replace(F.replace(text, F.lit("\\"), F.lit("\\\\")), F.lit(":"), F.lit("\\:"))


def _text(name: str, kind: DataType) -> Column:
    """A value as it stands in a hash: `read_back` gives it back."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    column = F.col(quoted(name))
    if isinstance(kind, T.StringType | T.BinaryType):
        return column
    if isinstance(kind, T.TimestampType):
        # In UTC, whatever the zone of the session is.
        moment = F.expr(f"timestampadd(MICROSECOND, unix_micros({quoted(name)}), {_EPOCH})")
        return F.concat(_with_t(moment), F.lit("Z"))
    if isinstance(kind, T.TimestampNTZType):
        return _with_t(column)
    if isinstance(kind, T.StructType | T.ArrayType | T.MapType | T.VariantType):
        return F.to_json(column, {"ignoreNullFields": "false"})
    return column.cast("string")


def _with_t(moment: Column) -> Column:
    from pyspark.sql import functions as F

    return F.replace(moment.cast("string"), F.lit(" "), F.lit("T"))


def order_kind(kind: DataType) -> str | None:
    """How the texts of two values are compared; None where they cannot be."""
    from pyspark.sql import types as T

    if isinstance(kind, T.IntegralType):
        return "integer"
    if isinstance(kind, T.NumericType):
        return "number"
    if isinstance(kind, T.TimestampType):
        return "time"
    return "text" if isinstance(kind, T.StringType | T.DateType | T.TimestampNTZType) else None


def _value(text: Column) -> Column:
    from pyspark.sql import functions as F

    marked = _argument(F.concat(F.lit(b"1"), text.cast("binary")))
    return F.when(text.isNull(), F.lit(b"$1\r\n0\r\n")).otherwise(marked)


def _argument(content: Column) -> Column:
    from pyspark.sql import functions as F

    length = F.octet_length(content).cast("string").cast("binary")
    return F.concat(F.lit(b"$"), length, F.lit(b"\r\n"), content, F.lit(b"\r\n"))


def read_back(
    spark: SparkSession, server: Server, schema: StructType, *, prefix: str, keys: str | None
) -> DataFrame:
    """Hashes as rows, read by one task whenever the frame is. `keys` is the set that holds their
    keys; without one they are looked for by their prefix."""
    columns = [field.name for field in schema]
    listed = ", ".join(f"{quoted(name)} binary" for name in columns)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from _hashes(server, columns, prefix, keys)

    found = spark.range(0, 1, 1, 1).mapInArrow(read, listed)
    return found.select(*[_typed(field.name, field.dataType) for field in schema])


def _hashes(
    server: Server, columns: list[str], prefix: str, keys: str | None
) -> Iterator[pa.RecordBatch]:
    import pyarrow
    from redis import RedisError

    client = server.client()
    try:
        if keys is not None:
            names = list(client.smembers(keys))
        else:
            pattern = re.sub(r"([*?\[\]\\])", r"\\\1", prefix) + ":*"
            names = list(set(client.scan_iter(match=pattern, count=_ROWS, _type="hash")))
        for start in range(0, len(names), _ROWS):
            asked = client.pipeline(transaction=False)
            for name in names[start : start + _ROWS]:
                asked.hmget(name, columns)
            # A key whose hash was removed, or has expired, has no field at all.
            rows = [row for row in asked.execute() if any(value is not None for value in row)]
            values = {name: [row[i] for row in rows] for i, name in enumerate(columns)}
            shape = pyarrow.schema([(name, pyarrow.binary()) for name in columns])
            yield pyarrow.RecordBatch.from_pydict(values, schema=shape)
    except RedisError as problem:
        raise RuntimeError(_worded(problem)) from None
    finally:
        client.close()


def _typed(name: str, kind: DataType) -> Column:
    """The value that `_text` wrote."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    column = F.col(quoted(name))
    if isinstance(kind, T.BinaryType):
        return column
    text = column.cast("string")
    if isinstance(kind, T.VariantType):
        return F.parse_json(text).alias(name)
    if isinstance(kind, T.StructType | T.ArrayType | T.MapType):
        return F.from_json(text, cast(Any, kind)).alias(name)
    return text.cast(kind).alias(name)
