"""`kafka OPTIONS (topics = 'signals')` as the call `kafka("signals")`.

A connector's factory is read by its signature: an option is a parameter's name, its value is
typed by the parameter's annotation. So a new parameter has its SQL spelling at once.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headwater.errors import (
    DefinitionError,
    InvalidOption,
    OptionMissing,
    Position,
    UnknownChoice,
    UnknownOption,
)
from headwater.sql.cursor import Cursor
from headwater.tokens import TokenKind

if TYPE_CHECKING:
    from headwater.connectors.interface import Connector

Value = str | int | float | bool | None | tuple[Any, ...]
SPARK = "spark."
"""Before a Spark option's own name: `'spark.maxFilesPerTrigger' = 1` is for Spark."""
_LISTS = {"tuple", "list", "Sequence", "Iterable", "Collection", "set", "frozenset", "Set"}
_MAPPINGS = {"Mapping", "dict", "MutableMapping"}
_WORDS: dict[str, Value] = {"TRUE": True, "FALSE": False, "NULL": None}


@dataclass(frozen=True, slots=True)
class Option:
    """One entry of OPTIONS."""

    name: str
    value: Value
    where: Position


def factories() -> dict[str, Callable[..., Connector]]:
    """The connectors by the names that USING and INTO take."""
    from headwater import connectors

    found = {name: getattr(connectors, name) for name in connectors.__all__}
    return {name: factory for name, factory in found.items() if inspect.isfunction(factory)}


def connector(cursor: Cursor) -> Connector:
    """Takes `name [OPTIONS (…)]` and calls the factory of that name."""
    where = cursor.position()
    name = cursor.name("a connector").lower()
    known = factories()
    if name not in known:
        raise UnknownChoice("connector", name, known, where=where)
    found = _options(cursor) if cursor.accept("OPTIONS") else []
    positional, named = _arguments(name, inspect.signature(known[name]), found, where)
    try:
        return known[name](*positional, **named)
    except DefinitionError as error:
        error.where = error.where or where
        raise


def spelling(parameter: inspect.Parameter) -> str:
    """How an option of this parameter is written, as the reference shows it."""
    if not _heads(parameter) & _MAPPINGS:
        return parameter.name
    return f"'{_prefix(parameter)}…'"


def _options(cursor: Cursor) -> list[Option]:
    cursor.expect_symbol("(")
    found: list[Option] = []
    while not cursor.accept_symbol(")"):
        where = cursor.position()
        name = _option_name(cursor)
        if any(option.name == name for option in found):
            raise cursor.error(f"the option {name!r} stands twice", expected="each option once")
        cursor.accept_symbol("=")
        found.append(Option(name, _value(cursor), where))
        if not cursor.accept_symbol(",") and not cursor.next.is_symbol(")"):
            raise cursor.error(expected="',' or ')'")
    return found


def _option_name(cursor: Cursor) -> str:
    if cursor.next.kind is TokenKind.STRING:
        return cursor.take().value
    parts = [cursor.name("an option")]
    while cursor.accept_symbol("."):
        parts.append(cursor.name("an option"))
    return ".".join(parts)


def _value(cursor: Cursor) -> Value:
    if cursor.accept_symbol("("):
        return _list(cursor)
    if cursor.next.kind is TokenKind.STRING:
        return cursor.take().value
    sign = -1 if cursor.accept_symbol("-") else 1
    if cursor.next.kind is TokenKind.NUMBER:
        return sign * _number(cursor)
    if sign > 0 and cursor.next.is_word(*_WORDS):
        return _WORDS[cursor.take().text.upper()]
    raise cursor.error(expected="a value: 'text', a number, TRUE, FALSE or a list ('a', 'b')")


def _list(cursor: Cursor) -> tuple[Value, ...]:
    found: list[Value] = []
    while not cursor.accept_symbol(")"):
        found.append(_value(cursor))
        if not cursor.accept_symbol(",") and not cursor.next.is_symbol(")"):
            raise cursor.error(expected="',' or ')'")
    return tuple(found)


def _number(cursor: Cursor) -> int | float:
    text = cursor.next.text
    try:
        number = int(text) if text.isdigit() else float(text)
    except ValueError:
        raise cursor.error(expected="a number such as 10 or 0.5") from None
    cursor.take()
    return number


def _arguments(
    name: str, signature: inspect.Signature, options: Iterable[Option], where: Position
) -> tuple[list[Any], dict[str, Any]]:
    """What the factory is called with: the arguments by position and those by name."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for option in options:
        parameter, key = _parameter(name, signature, option)
        if key is not None:
            named.setdefault(parameter.name, {})[key] = option.value
        elif parameter.kind is parameter.VAR_POSITIONAL:
            many = option.value if isinstance(option.value, tuple) else (option.value,)
            positional += [_typed(name, option, value, _heads(parameter)) for value in many]
        else:
            named[parameter.name] = _typed(name, option, option.value, _heads(parameter))
    for parameter in signature.parameters.values():
        is_required = parameter.default is parameter.empty
        if is_required and parameter.kind not in _VARIADIC and parameter.name not in named:
            heads = _heads(parameter)
            raise OptionMissing(name, parameter.name, _example(parameter.name, heads), where=where)
    return positional, named


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _parameter(
    name: str, signature: inspect.Signature, option: Option
) -> tuple[inspect.Parameter, str | None]:
    """The parameter that an option is for, and the key where that parameter is a mapping."""
    for parameter in signature.parameters.values():
        if _heads(parameter) & _MAPPINGS:
            prefix = _prefix(parameter)
            if option.name.startswith(prefix):
                return parameter, option.name.removeprefix(prefix)
        elif option.name == parameter.name and parameter.kind is not parameter.VAR_KEYWORD:
            return parameter, None
    spellings = [spelling(parameter) for parameter in signature.parameters.values()]
    raise UnknownOption(name, option.name, spellings, where=option.where)


def _prefix(parameter: inspect.Parameter) -> str:
    return SPARK if parameter.name == "options" else f"{parameter.name}."


def _heads(parameter: inspect.Parameter) -> set[str]:
    """The outer names of an annotation: `Sequence[str] | None` has Sequence and None.

    Annotations are read as text, since evaluating them would import what they name.
    """
    depth, parts = 0, [""]
    for character in str(parameter.annotation):
        depth += (character in "[(") - (character in ")]")
        if character == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return {part.split("[")[0].strip().rpartition(".")[2] for part in parts}


def _typed(name: str, option: Option, value: Value, heads: set[str]) -> Any:
    """`value` as the parameter wants it; text stands for numbers, as Spark's own options do."""
    for convert in (_as_it_is, _as_list, _as_number, _as_text, _as_time, _as_object):
        typed = convert(value, heads)
        if typed is not None:
            return typed
    if value is None and "None" in heads:
        return None
    shown = repr(value) if isinstance(value, str | int | float) else "a list" if value else "NULL"
    expected = " or ".join(_expected(head) for head in sorted(heads - {"None"}))
    raise InvalidOption(name, option.name, shown, expected, where=option.where)


def _as_it_is(value: Value, heads: set[str]) -> Any:
    exact = type(value).__name__
    if exact in heads or (heads & {"Any", "object"} and value is not None):
        return value
    return value if isinstance(value, tuple) and heads & _LISTS else None


def _as_list(value: Value, heads: set[str]) -> Any:
    return (value,) if heads & _LISTS and value is not None else None


def _as_number(value: Value, heads: set[str]) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and "float" in heads:
        return float(value)
    if not isinstance(value, str):
        return None
    if "bool" in heads and value.lower() in ("true", "false"):
        return value.lower() == "true"
    for head, convert in (("int", int), ("float", float)):
        try:
            if head in heads:
                return convert(value)
        except ValueError:
            continue
    return None


def _as_text(value: Value, heads: set[str]) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if "str" in heads and is_number else None


def _as_time(value: Value, heads: set[str]) -> Any:
    try:
        is_time = isinstance(value, str) and "datetime" in heads
        return datetime.fromisoformat(str(value)) if is_time else None
    except ValueError:
        return None


def _as_object(value: Value, heads: set[str]) -> Any:
    """A Python object by `'module:name'`, where a parameter takes a function or a class."""
    if not isinstance(value, str) or heads <= set(_EXPECTED) | _LISTS:
        return None
    module, _, name = value.partition(":")
    try:
        return getattr(importlib.import_module(module), name, None) if name else None
    except ImportError:
        return None


_EXPECTED = {
    "bool": "TRUE or FALSE",
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "datetime": "a time such as '2026-01-01T00:00:00+00:00'",
    "None": "NULL",
}


def _expected(head: str) -> str:
    if head in _LISTS:
        return "a list such as ('a', 'b')"
    return _EXPECTED.get(head, "a Python object that can be imported, as 'module:name'")


def _example(name: str, heads: set[str]) -> str:
    if heads & _LISTS:
        return f"{name} = ('…', '…')"
    return f"{name} = 1" if heads & {"int", "float"} else f"{name} = '…'"


def parameters() -> Mapping[str, list[inspect.Parameter]]:
    """Every connector with the parameters of its factory."""
    return {
        name: list(inspect.signature(factory).parameters.values())
        for name, factory in factories().items()
    }
