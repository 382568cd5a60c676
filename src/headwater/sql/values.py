"""Values of OPTIONS as a factory's parameters want them.

Annotations are read as text, since evaluating them would import what they name.
"""

from __future__ import annotations

import importlib
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from headwater.errors import AppImportFailed, InvalidOption, Position

Value = str | int | float | bool | None | tuple[Any, ...]

_LISTS = {"tuple", "list", "Sequence", "Iterable", "Collection", "set", "frozenset", "Set"}
_MAPPINGS = {"Mapping", "dict", "MutableMapping"}
_OBJECTS = {"Callable", "type"}
_EXPECTED = {
    "bool": "TRUE or FALSE",
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "datetime": "a time such as '2026-01-01T00:00:00+00:00'",
}


class Wanted:
    """What an annotation takes: the outer names of its alternatives.

    `Mapping[str, Sequence[int]] | None` has `Mapping` and `None`.
    """

    def __init__(self, annotation: str) -> None:
        self._alternatives = _split(annotation, "|")
        self.heads = {part.split("[")[0].rpartition(".")[2] for part in self._alternatives}

    @property
    def is_mapping(self) -> bool:
        return bool(self.heads & _MAPPINGS)

    @property
    def is_only_mapping(self) -> bool:
        return not self.heads - _MAPPINGS - {"None"}

    @property
    def is_list(self) -> bool:
        return bool(self.heads & _LISTS)

    @property
    def is_deep(self) -> bool:
        """Whether mappings may stand in the mapping: `Mapping[Any, Any]`."""
        return "Any" in self.in_mapping.heads

    @property
    def in_mapping(self) -> Wanted:
        """What stands under each key of a mapping."""
        part = next(p for p in self._alternatives if p.split("[")[0] in _MAPPINGS)
        inner = part.partition("[")[2].removesuffix("]")
        return Wanted(_split(inner, ",")[-1] if inner else "Any")

    def __str__(self) -> str:
        heads = sorted(self.heads - _MAPPINGS - {"None", "Any"})
        return " or ".join(_expected(head) for head in heads) or "a value"


def typed(wanted: Wanted, value: Value, *, of: tuple[str, str], where: Position) -> Any:
    """`value` as it is wanted; text may stand for a number, as in Spark's own options.

    `of` names connector and option for the error.
    """
    if value is None and "None" in wanted.heads:
        return None
    if wanted.heads & _OBJECTS:
        found = _as_object(value, where)
    else:
        steps = (_as_time, _as_it_is, _as_number, _as_list, _as_text)
        results = (convert(value, wanted.heads) for convert in steps)
        found = next((result for result in results if result is not None), None)
    if found is not None:
        return found
    raise InvalidOption(*of, _shown(value), str(wanted), where=where)


def _split(text: str, separator: str) -> list[str]:
    """Parts of an annotation, brackets seen as one."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character in "[(") - (character in ")]")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _as_it_is(value: Value, heads: set[str]) -> Any:
    if isinstance(value, tuple):
        return value if heads & (_LISTS | {"Any", "object"}) else None
    return value if heads & {type(value).__name__, "Any", "object"} else None


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
        is_text = isinstance(value, str) and "datetime" in heads
        return datetime.fromisoformat(str(value)) if is_text else None
    except ValueError:
        return None


def _as_object(value: Value, where: Position) -> Any:
    """The Python object that `'module:name'` names; the SQL file's own folder is looked in."""
    module, _, name = str(value).partition(":")
    if not isinstance(value, str) or not name:
        return None
    folder = str(Path(where.file).parent.resolve())
    sys.path.insert(0, folder)
    try:
        return getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise AppImportFailed(module, error, where=where) from error
        return None
    except Exception as error:
        raise AppImportFailed(module, error, where=where) from error
    finally:
        sys.path.remove(folder)


def _expected(head: str) -> str:
    if head in _LISTS:
        return "a list such as ('a', 'b')"
    return _EXPECTED.get(head, "a Python object that can be imported, as 'module:name'")


def _shown(value: Value) -> str:
    if value is None:
        return "NULL"
    return "a list" if isinstance(value, tuple) else repr(value)
