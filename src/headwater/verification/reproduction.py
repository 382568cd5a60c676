"""A test that reproduces a problem, ready to be kept."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from headwater.testing.values import DAY
from headwater.verification.problems import Problem
from headwater.verification.trials import CRASH_AFTER, CRASH_BEFORE, RESTART, Step, Trial


def test_file(
    problem: Problem,
    *,
    module: str,
    variable: str,
    closes: Mapping[str, dt.datetime],
    keep: Sequence[str],
) -> str:
    """The text of a test. `closes` gives the event times that close all windows, `keep` the tables
    whose own function is called."""
    trial = problem.trial
    assert trial is not None
    lines: list[str] = []
    words = {"add", "check", "process"}
    for number, step in enumerate(trial.steps):
        for source, rows in step.rows.items():
            if rows:
                lines += [f"add({source!r}, [", *(f"    {_row(row)}," for row in rows), "]),"]
        event = _event(trial, number, is_kept=problem.table in keep)
        if event == RESTART:
            words |= {"stop", "restart"}
            lines += ["process(),", "stop(),", "restart(),"]
        elif event is not None:
            words |= {"crash", "restart"}
            point = event.removeprefix("crash ")
            lines += [f'crash("{point}", "{problem.table}"),', "restart(),"]
        lines.append("process(),")
    for source, moment in closes.items():
        words.add("advance_event_time")
        lines.append(f"advance_event_time({source!r}, {literal(moment)}),")
    lines += [
        f"check({problem.table!r}, [",
        *(f"    {_row(row)}," for row in problem.expected),
        "])," if problem.is_exact else "], contains=True),",
    ]
    body = "\n".join(f"        {line}" for line in lines)
    options = [f"partitions={trial.partitions}"] if trial.partitions != 1 else []
    options += [f'trigger="{trial.trigger or "default"}"']
    options += [f"keep=[{problem.table!r}]"] if problem.table in keep else []
    arguments = ", ".join([variable, *options])
    sink = f"{variable}.definitions().tables[{problem.table!r}].into"
    prepares = f"    {sink}.clear()\n" if problem.table in keep else ""
    return f'''"""Found by `headwater verify` (seed {trial.seed}).

Broken law: {problem.law}.
"""

from {module} import {variable}

from headwater.testing import {", ".join(sorted(words))}


def test_{problem.table}_is_what_a_batch_gives(harness):
{prepares}    harness({arguments}).run(
{body}
    )
'''


def _event(trial: Trial, number: int, *, is_kept: bool) -> str | None:
    """What happened to the table in a step: a crash point that it did not reach is a restart."""
    event = trial.steps[number].event
    if event == CRASH_BEFORE and (is_kept or not _has_rows(trial.steps[number : number + 1])):
        return RESTART
    if event == CRASH_AFTER and not _has_rows(trial.steps[: number + 1]):
        return RESTART
    return event


def _has_rows(steps: Sequence[Step]) -> bool:
    return any(rows for step in steps for rows in step.rows.values())


def write(text: str, folder: Path, table: str) -> Path:
    """Puts the test beside the project's own, under a name that is still free."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        path = folder / f"test_verify_{table}{f'_{number}' if number else ''}.py"
        if not path.exists():
            path.write_text(text, encoding="utf-8")
            return path
        number += 1


def _row(row: tuple[Any, ...]) -> str:
    values = ", ".join(map(literal, row))
    return f"({values},)" if len(row) == 1 else f"({values})"


def literal(value: Any) -> str:
    """A value as it is written in a test.

    >>> literal(dt.datetime(2026, 1, 1, 12, 0, 5, tzinfo=dt.UTC))
    "'12:00:05'"
    """
    if isinstance(value, dt.datetime):
        plain = value.replace(tzinfo=None)
        return repr(plain.time().isoformat() if plain.date() == DAY else plain.isoformat())
    if isinstance(value, dt.date):
        return repr(value.isoformat())
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, Decimal):
        return repr(str(value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return repr(value)
