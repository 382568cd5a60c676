"""Schema text in one normal form, without a JVM.

The normal form is what Spark itself prints: lower-case types, one spelling per type (`bigint`,
never `long`), single spaces, backticks only where a name needs them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.errors import InvalidSchema, Location, nearest
from headwater.tokens import Token, TokenError, TokenKind, tokens

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a schema; `type` is in normal form."""

    name: str
    type: str
    is_nullable: bool = True

    def __str__(self) -> str:
        return f"{quoted(self.name)} {self.type}{'' if self.is_nullable else ' NOT NULL'}"


def columns(
    text: str, *, name: str = "schema", where: Location | None = None
) -> tuple[Column, ...]:
    """The columns of a schema's text; raises `InvalidSchema` with the reason.

    >>> columns("at timestamp, n long NOT NULL")[1]
    Column(name='n', type='bigint', is_nullable=False)
    """
    try:
        return _Reader(tokens(text)).schema()
    except TokenError as error:
        reason = str(error)
    except _SchemaError as error:
        reason = str(error)
    raise InvalidSchema(name, text, reason, where=where) from None


def normal_schema(text: str, *, name: str = "schema", where: Location | None = None) -> str:
    """The one spelling of a schema: two texts that Spark reads alike give the same one.

    >>> normal_schema("device STRING,n  Long not null")
    'device string, n bigint NOT NULL'
    """
    return ", ".join(str(column) for column in columns(text, name=name, where=where))


def schema_text(
    schema: str | StructType | None, *, name: str = "schema", where: Location | None = None
) -> str | None:
    """The normal form of what a user gave as a schema: text, or Spark's own `StructType`."""
    if schema is None:
        return None
    if not isinstance(schema, str) and not hasattr(schema, "fields"):
        reason = f"it is a {type(schema).__name__}, neither text nor a StructType"
        raise InvalidSchema(name, repr(schema), reason, where=where)
    text = schema if isinstance(schema, str) else _fields_text(schema, " ", ", ")
    return normal_schema(text, name=name, where=where)


def quoted(name: str) -> str:
    """A name as it stands in SQL, in backticks where Spark needs them."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    return name if plain else "`" + name.replace("`", "``") + "`"


def _fields_text(struct: Any, colon: str, comma: str) -> str:
    # StructType.simpleString() leaves NOT NULL and backticks out, so fields are written here.
    return comma.join(
        f"{quoted(field.name)}{colon}{_type_text(field.dataType)}"
        f"{'' if field.nullable else ' NOT NULL'}"
        for field in struct.fields
    )


def _type_text(data_type: Any) -> str:
    if hasattr(data_type, "fields"):
        return f"struct<{_fields_text(data_type, ':', ',')}>"
    if hasattr(data_type, "elementType"):
        return f"array<{_type_text(data_type.elementType)}>"
    if hasattr(data_type, "keyType"):
        return f"map<{_type_text(data_type.keyType)},{_type_text(data_type.valueType)}>"
    return str(data_type.simpleString())


_SYNONYMS = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "character": "char",
    "timestamp_ltz": "timestamp",
}
_PLAIN_WORDS = (
    "boolean tinyint smallint int bigint float double string binary date timestamp "
    "timestamp_ntz variant void"
)
_PLAIN = frozenset(_PLAIN_WORDS.split())
# Types with a size, and the size that Spark gives them where the user does not.
_NUMBERED = {
    "decimal": "10,0",
    "time": "6",
    "char": None,
    "varchar": None,
    "geometry": None,
    "geography": None,
}
_NESTED = ("array", "map", "struct")
_KNOWN = (*_PLAIN, *_NUMBERED, *_NESTED, "interval", *_SYNONYMS)
_UNITS = ("year", "month", "day", "hour", "minute", "second")


class _SchemaError(Exception):
    pass


class _Reader:
    """Reads one schema, top to bottom."""

    def __init__(self, read: list[Token]) -> None:
        self._tokens = read
        self._at = 0

    def schema(self) -> tuple[Column, ...]:
        if len(self._tokens) == 1:
            raise _SchemaError("it has no columns")
        is_struct = self._next.is_word("STRUCT") and self._tokens[1].is_symbol("<")
        if is_struct:
            self._at += 2
        found = self._columns()
        if is_struct:
            self._closing()
        if self._next.kind is not TokenKind.END:
            raise _SchemaError(f"{self._next.text!r} follows where a comma was expected")
        return found

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        if token.kind is not TokenKind.END:
            self._at += 1
        return token

    def _accept(self, *symbols: str) -> bool:
        is_there = self._next.is_symbol(*symbols)
        self._at += is_there
        return is_there

    def _accept_word(self, *words: str) -> bool:
        is_there = self._next.is_word(*words)
        self._at += is_there
        return is_there

    def _columns(self) -> tuple[Column, ...]:
        found: dict[str, Column] = {}
        while True:
            column = self._column()
            # Spark compares column names without regard to case.
            if column.name.lower() in found:
                raise _SchemaError(f"column {column.name!r} stands twice")
            found[column.name.lower()] = column
            if not self._accept(","):
                return tuple(found.values())

    def _column(self) -> Column:
        token = self._take()
        if not token.is_name:
            raise _SchemaError(f"found {str(token)!r} where a column's name was expected")
        if token.kind is TokenKind.WORD and not token.text.isascii():
            raise _SchemaError(f"the name {token.text!r} must stand in backticks")
        self._accept(":")
        kind = self._type(token.value)
        is_nullable = not self._accept_word("NOT")
        if not is_nullable and not self._accept_word("NULL"):
            raise _SchemaError(f"NOT stands without NULL after column {token.value!r}")
        if self._accept_word("COMMENT") and self._take().kind is not TokenKind.STRING:
            raise _SchemaError(f"COMMENT of column {token.value!r} is not a string")
        return Column(token.value, kind, is_nullable)

    def _type(self, of: str) -> str:
        token = self._take()
        if token.kind is not TokenKind.WORD:
            raise _SchemaError(f"column {of!r} has no type")
        kind = _SYNONYMS.get(token.text.lower(), token.text.lower())
        if kind == "string" and self._accept_word("COLLATE"):
            return f"string collate {self._take().value}"
        if kind in _PLAIN:
            return kind
        if kind in _NUMBERED:
            return self._numbered(kind)
        if kind == "interval":
            return self._interval()
        if kind in _NESTED:
            return self._nested(kind, of)
        close = nearest(kind, _KNOWN)
        hint = f"; did you mean {close}?" if close else ""
        raise _SchemaError(f"column {of!r} has the unknown type {token.text!r}{hint}")

    def _numbered(self, kind: str) -> str:
        if not self._accept("("):
            if _NUMBERED[kind] is None:
                raise _SchemaError(f"{kind} needs its size, such as {kind}(10)")
            return f"{kind}({_NUMBERED[kind]})"
        numbers = [self._take().text.lower()]
        while self._accept(","):
            numbers.append(self._take().text.lower())
        if not self._accept(")") or not all(n.isdigit() or n == "any" for n in numbers):
            raise _SchemaError(f"the size of {kind} is not a number in parentheses")
        if kind == "decimal" and len(numbers) == 1:
            numbers.append("0")
        return f"{kind}({','.join(numbers)})"

    def _interval(self) -> str:
        words = ["interval"]
        if self._next.text.lower() in _UNITS:
            words.append(self._take().text.lower())
            if self._accept_word("TO"):
                words += ["to", self._take().text.lower()]
        if words[-1] != "interval" and words[-1] not in _UNITS:
            raise _SchemaError(f"{' '.join(words)} is not an interval")
        return " ".join(words)

    def _nested(self, kind: str, of: str) -> str:
        # `struct<>` reaches here as one symbol.
        if kind == "struct" and self._accept("<>"):
            return "struct<>"
        if not self._accept("<"):
            raise _SchemaError(f"{kind} needs its types, such as {_EXAMPLES[kind]}")
        if kind == "struct":
            inner = ",".join(_field(column) for column in self._columns())
        elif kind == "array":
            inner = self._type(of)
        else:
            key = self._type(of)
            if not self._accept(","):
                raise _SchemaError(f"map needs two types, such as {_EXAMPLES[kind]}")
            inner = f"{key},{self._type(of)}"
        self._closing()
        return f"{kind}<{inner}>"

    def _closing(self) -> None:
        if not self._accept(">"):
            raise _SchemaError(f"found {str(self._next)!r} where '>' was expected")


_EXAMPLES = {
    "array": "array<string>",
    "map": "map<string,int>",
    "struct": "struct<a:int,b:string>",
}


def _field(column: Column) -> str:
    return f"{quoted(column.name)}:{column.type}{'' if column.is_nullable else ' NOT NULL'}"
