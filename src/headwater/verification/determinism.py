"""Functions whose value differs from run to run, and the columns that they reach."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headwater.connectors.interface import REJECTED
from headwater.testing.scene import Content
from headwater.testing.values import difference
from headwater.verification.problems import Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CLOCK = re.compile(
    r"\b(current_timestamp|current_date|current_time|localtimestamp|now|unix_timestamp)\(\)"
)


def suspects(table: str, frame: DataFrame) -> list[Problem]:
    """Columns of a table that come from a random function or from the machine's clock."""
    plan = frame._jdf.queryExecution().analyzed()
    defined = dict(_definitions(plan))
    found = []
    for column in _items(plan.output()):
        functions = sorted(_reached(int(column.exprId().id()), defined, set()))
        if functions:
            law = f"column {column.name()} does not depend on {', '.join(functions)}"
            found.append(Problem(table, law, columns=(str(column.name()),)))
    conditions = [column for column in defined if column < 0]
    used = sorted(set().union(*(_reached(c, defined, set()) for c in conditions)))
    if not found and used:
        law = f"the rows do not depend on {', '.join(used)}"
        found.append(Problem(table, law))
    return found


Defined = Mapping[int, tuple[frozenset[str], tuple[int, ...]]]


def _definitions(plan: Any) -> Iterator[tuple[int, tuple[frozenset[str], tuple[int, ...]]]]:
    """Expressions by the id of the column they define: the functions that differ from run to run
    in them, and the ids of the columns they read. Conditions are kept under negative ids."""
    from headwater.event_time.plans import plan_nodes
    from headwater.planning.analysis import random_parts

    number = 0
    for node in plan_nodes(plan):
        for expression in _items(node.expressions()):
            number += 1
            functions = frozenset((*random_parts(expression), *_clock(expression)))
            if _is_alias(expression) and str(expression.name()) == REJECTED:
                # The guard against clocks that are ahead goes by the time in the offset log.
                functions = frozenset()
            reads = tuple(int(r.exprId().id()) for r in _items(expression.references().toSeq()))
            defines = int(expression.exprId().id()) if _is_alias(expression) else -number
            yield defines, (functions, reads)


def _is_alias(expression: Any) -> bool:
    return str(expression.getClass().getSimpleName()) == "Alias"


def _clock(expression: Any) -> set[str]:
    return {f"{name}()" for name in _CLOCK.findall(str(expression.sql()))}


def _reached(column: int, defined: Defined, seen: set[int]) -> set[str]:
    if column in seen or column not in defined:
        return set()
    seen.add(column)
    functions, reads = defined[column]
    return set(functions).union(*(_reached(read, defined, seen) for read in reads))


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def differing(table: str, one: Content, other: Content) -> Problem | None:
    """Two batch runs over the same rows: which columns are not the same."""
    missing, extra = difference(one.rows, other.rows)
    if not missing and not extra:
        return None
    names = one.schema.names
    columns = [
        name
        for index, name in enumerate(names)
        if any(difference([(r[index],) for r in one.rows], [(r[index],) for r in other.rows]))
    ]
    where = f"column {', '.join(columns)}" if columns else "the result"
    law = f"{where} is the same when a batch runs again over the same rows"
    return Problem(table, law, tuple(names), missing, extra)
