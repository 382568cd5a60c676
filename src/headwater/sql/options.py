"""`kafka OPTIONS (topics = 'signals')` as the call `kafka("signals")`.

A connector's factory is read by its signature: an option is a parameter's name, its value is
typed by the parameter's annotation. So a new parameter has its SQL spelling at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.errors import (
    DefinitionError,
    OptionMissing,
    Position,
    UnknownChoice,
    UnknownOption,
)
from headwater.sql.cursor import Cursor
from headwater.sql.values import Value, Wanted, typed
from headwater.tokens import TokenKind

if TYPE_CHECKING:
    from headwater.connectors.interface import Connector

SPARK = "spark."
"""Before a Spark option's own name: `'spark.maxFilesPerTrigger' = 1` is for Spark."""
_WORDS: dict[str, Value] = {"TRUE": True, "FALSE": False, "NULL": None}
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


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


def parameters() -> Mapping[str, list[inspect.Parameter]]:
    """Every connector with the parameters of its factory."""
    return {
        name: list(inspect.signature(factory).parameters.values())
        for name, factory in factories().items()
    }


def spellings(parameter: inspect.Parameter) -> list[str]:
    """How options of this parameter are written, as the reference shows them."""
    wanted = Wanted(str(parameter.annotation))
    plain = [] if wanted.is_only_mapping else [parameter.name]
    return [*plain, f"'{_prefix(parameter)}…'"] if wanted.is_mapping else plain


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
        wanted, of = Wanted(str(parameter.annotation)), (name, option.name)
        if key is not None:
            value = typed(wanted.in_mapping, option.value, of=of, where=option.where)
            _put(named.setdefault(parameter.name, {}), key, value, is_deep=wanted.is_deep)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            many = option.value if isinstance(option.value, tuple) else (option.value,)
            positional += [typed(wanted, value, of=of, where=option.where) for value in many]
        else:
            named[parameter.name] = typed(wanted, option.value, of=of, where=option.where)
    for parameter in signature.parameters.values():
        is_required = parameter.default is parameter.empty and parameter.kind not in _VARIADIC
        if is_required and parameter.name not in named:
            raise OptionMissing(name, parameter.name, _example(parameter), where=where)
    return positional, named


def _put(mapping: dict[str, Any], key: str, value: Any, *, is_deep: bool) -> None:
    """`signals.0` in a mapping of mappings; a topic's name may have dots, a partition has none."""
    outer, _, inner = key.rpartition(".")
    if is_deep and outer:
        mapping.setdefault(outer, {})[inner] = value
    else:
        mapping[key] = value


def _parameter(
    name: str, signature: inspect.Signature, option: Option
) -> tuple[inspect.Parameter, str | None]:
    """The parameter that an option is for, and the key where it is one key of a mapping."""
    for parameter in signature.parameters.values():
        wanted, prefix = Wanted(str(parameter.annotation)), _prefix(parameter)
        if wanted.is_mapping and option.name.startswith(prefix):
            return parameter, option.name.removeprefix(prefix)
        if option.name == parameter.name and not wanted.is_only_mapping:
            return parameter, None
    known = [text for parameter in signature.parameters.values() for text in spellings(parameter)]
    raise UnknownOption(name, option.name, known, where=option.where)


def _prefix(parameter: inspect.Parameter) -> str:
    return SPARK if parameter.name == "options" else f"{parameter.name}."


def _example(parameter: inspect.Parameter) -> str:
    wanted = Wanted(str(parameter.annotation))
    if wanted.is_list:
        return f"{parameter.name} = ('…', '…')"
    return f"{parameter.name} = {'1' if wanted.heads & {'int', 'float'} else repr('…')}"
