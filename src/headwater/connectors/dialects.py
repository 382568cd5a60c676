"""SQL where databases differ: names, types, and how a row replaces another of its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headwater.connectors.copies import copy_rows
from headwater.connectors.upserts import is_not_older
from headwater.errors import InvalidConnector
from headwater.ledger.databases import Database, split_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

STAGED_ATTEMPT = "headwater_attempt"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"smallint": 4, "int": 9, "bigint": 18}
_NUMBERS = frozenset({*_INTEGERS, "decimal", "float", "double"})
_MOMENTS = frozenset({"string", "date", "timestamp", "timestamp_ntz"})
_KINDS = _NUMBERS | _MOMENTS | {"boolean", "binary", "structure"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """A database of which nothing is known but the SQL standard: no upsert."""

    quote: ClassVar[str] = '"'
    json: ClassVar[str] = "text"
    key_text: ClassVar[str] = "varchar(255)"
    types: ClassVar[dict[str, str]] = {
        "string": "text",
        "boolean": "boolean",
        "tinyint": "smallint",
        "smallint": "smallint",
        "int": "integer",
        "bigint": "bigint",
        "float": "real",
        "double": "double precision",
        "date": "date",
        "timestamp": "timestamp",
        "timestamp_ntz": "timestamp",
    }
    session: ClassVar[dict[str, str]] = {}
    """Options of every connection."""
    fast_inserts: ClassVar[dict[str, str]] = {}
    """Options with which the driver sends many rows at once."""
    holds: ClassVar[dict[str, frozenset[str]]] = {}
    """What columns of a type can hold; those of other types take what comes."""

    def name(self, table: str) -> str:
        """A table's name, with its schema where it has one."""
        return ".".join(self.column(part) for part in split_name(table) if part)

    def column(self, name: str) -> str:
        return f"{self.quote}{name.replace(self.quote, self.quote * 2)}{self.quote}"

    def beside(self, table: str, name: str) -> str:
        """Another table in the schema of a table."""
        schema, _ = split_name(table)
        return self.name(f"{schema}.{name}" if schema else name)

    def type_of(self, kind: DataType, *, is_key: bool) -> str:
        from pyspark.sql.types import DecimalType, StringType

        if isinstance(kind, DecimalType):
            return f"numeric({kind.precision},{kind.scale})"
        if isinstance(kind, StringType):
            return self.key_text if is_key else self.types["string"]
        return self.types.get(kind.simpleString(), self.json)

    def can_hold(self, column: str, kind: DataType) -> bool:
        """Whether a column of this type of the database can hold all values of a type.

        Numbers that are rounded and moments that are cut to days are the table owner's choice.
        """
        # MariaDB's names go on with "unsigned" and the like.
        held = self.holds.get(column.lower().partition(" ")[0], _KINDS)
        name = _kind_name(kind)
        return name in held or name not in _KINDS

    def create_staging(self, staging: str, target: str, columns: Sequence[str]) -> list[str]:
        listed = ", ".join(map(self.column, columns))
        return [
            f"CREATE TABLE {staging} AS SELECT {listed} FROM {target} WHERE 1 = 0",
            f"ALTER TABLE {staging} ADD COLUMN {self.column(STAGED_ATTEMPT)} varchar(100)",
        ]

    def load(self, rows: DataFrame, database: Database, staging: str) -> None:
        """Puts rows into a staging table, each task in a transaction of its own."""
        options = {**self.fast_inserts, **database.options, "dbtable": staging}
        rows.write.format("jdbc").options(**options).mode("append").save()

    def insert(self, target: str, columns: Sequence[str], rows: str) -> str:
        listed = ", ".join(map(self.column, columns))
        return f"INSERT INTO {target} ({listed}) {rows}"

    def upsert(
        self,
        target: str,
        columns: Sequence[str],
        key: Sequence[str],
        order_by: Sequence[str],
        rows: str,
    ) -> str:
        raise InvalidConnector(
            "jdbc",
            f"how a row replaces another in {target} is not known for this database",
            expected="the driver of PostgreSQL or MariaDB",
        )


@dataclass(frozen=True, slots=True)
class PostgresDialect(Dialect):
    json: ClassVar[str] = "jsonb"
    key_text: ClassVar[str] = "text"
    types: ClassVar[dict[str, str]] = {
        **Dialect.types,
        "timestamp": "timestamptz",
        "binary": "bytea",
    }
    holds: ClassVar[dict[str, frozenset[str]]] = {
        **dict.fromkeys(("int2", "smallserial"), frozenset(_INTEGERS[:2])),
        **dict.fromkeys(("int4", "serial"), frozenset(_INTEGERS[:3])),
        **dict.fromkeys(("int8", "bigserial"), frozenset(_INTEGERS)),
        **dict.fromkeys(("float4", "float8", "numeric"), _NUMBERS),
        "bool": frozenset({"boolean"}),
        **dict.fromkeys(("date", "timestamp", "timestamptz"), _MOMENTS),
        "bytea": frozenset({"string", "binary"}),
        **dict.fromkeys(("json", "jsonb"), _NUMBERS | {"string", "boolean", "structure"}),
        "uuid": frozenset({"string"}),
    }

    def create_staging(self, staging: str, target: str, columns: Sequence[str]) -> list[str]:
        # What is staged is never needed after a crash of the database.
        first, *rest = Dialect.create_staging(self, staging, target, columns)
        return [first.replace("CREATE TABLE", "CREATE UNLOGGED TABLE", 1), *rest]

    def load(self, rows: DataFrame, database: Database, staging: str) -> None:
        listed = ", ".join(map(self.column, rows.columns))
        copy_rows(rows, database, f"COPY {staging} ({listed}) FROM STDIN (ENCODING 'UTF8')")

    def upsert(
        self,
        target: str,
        columns: Sequence[str],
        key: Sequence[str],
        order_by: Sequence[str],
        rows: str,
    ) -> str:
        names = ", ".join(map(self.column, key))
        others = [self.column(name) for name in columns if name not in key]
        if not others:
            return f"{self.insert(target, columns, rows)} ON CONFLICT ({names}) DO NOTHING"
        new = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        text = f"{self.insert(target, columns, rows)} ON CONFLICT ({names}) DO UPDATE SET {new}"
        if not order_by:
            return text
        old = [f"{target}.{self.column(name)}" for name in order_by]
        late = [f"EXCLUDED.{self.column(name)}" for name in order_by]
        return f"{text} WHERE {is_not_older(late, old)}"


@dataclass(frozen=True, slots=True)
class MariaDialect(Dialect):
    quote: ClassVar[str] = "`"
    json: ClassVar[str] = "json"
    types: ClassVar[dict[str, str]] = {
        **Dialect.types,
        "string": "longtext",
        "float": "float",
        "double": "double",
        "timestamp": "datetime(6)",
        "timestamp_ntz": "datetime(6)",
        "binary": "longblob",
    }
    # Its boolean is a small integer.
    holds: ClassVar[dict[str, frozenset[str]]] = {
        **dict.fromkeys(("boolean", "tinyint"), frozenset({"boolean", *_INTEGERS[:1]})),
        **dict.fromkeys(("smallint", "mediumint"), frozenset({"boolean", *_INTEGERS[:2]})),
        "int": frozenset({"boolean", *_INTEGERS[:3]}),
        "bigint": frozenset({"boolean", *_INTEGERS}),
        **dict.fromkeys(("float", "double", "decimal"), _NUMBERS | {"boolean"}),
        **dict.fromkeys(("date", "datetime", "timestamp"), _MOMENTS),
    }
    # Spark does not know MariaDB and writes names in double quotes, which MariaDB would take for
    # texts. A value that does not fit is refused, not cut. A moment is kept in UTC.
    session: ClassVar[dict[str, str]] = {
        "sessionVariables": "sql_mode='ANSI_QUOTES,STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
        "connectionTimeZone": "UTC",
        "forceConnectionTimeZoneToSession": "true",
    }
    fast_inserts: ClassVar[dict[str, str]] = {"useBulkStmts": "true", "batchsize": "10000"}

    def upsert(
        self,
        target: str,
        columns: Sequence[str],
        key: Sequence[str],
        order_by: Sequence[str],
        rows: str,
    ) -> str:
        others = [self.column(name) for name in columns if name not in key]
        if not others:
            return self.insert(target, columns, rows).replace("INSERT", "INSERT IGNORE", 1)
        is_late = ""
        if order_by:
            late = [f"VALUES({self.column(name)})" for name in order_by]
            old = [f"{target}.{self.column(name)}" for name in order_by]
            is_late = is_not_older(late, old)
        # Set one after the other: the order's own columns last, or they would decide for the rest.
        order = [self.column(name) for name in reversed(order_by)]
        new = ", ".join(
            f"{name} = IF({is_late}, VALUES({name}), {target}.{name})"
            if is_late
            else f"{name} = VALUES({name})"
            for name in [*(name for name in others if name not in order), *order]
        )
        return f"{self.insert(target, columns, rows)} ON DUPLICATE KEY UPDATE {new}"


def _kind_name(kind: DataType) -> str:
    """Spark's name of a type, without its parameters; of a decimal without fraction that of the
    integer that holds it."""
    from pyspark.sql import types as T

    if isinstance(kind, T.DecimalType):
        fits = [name for name, digits in _DIGITS.items() if kind.precision <= digits]
        return fits[0] if fits and kind.scale == 0 else "decimal"
    if isinstance(kind, T.StringType):
        return "string"
    if isinstance(kind, T.StructType | T.ArrayType | T.MapType):
        return "structure"
    return str(kind.simpleString())


def dialect_of(url: str) -> Dialect:
    """
    >>> dialect_of("jdbc:postgresql://host/db").column("minute")
    '"minute"'
    """
    if url.startswith("jdbc:postgresql:"):
        return PostgresDialect()
    if url.startswith(("jdbc:mariadb:", "jdbc:mysql:")):
        return MariaDialect()
    return Dialect()
