"""A verification from beginning to end: record, run trials while there is time, shrink, tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.testing.values import TOLERANCE, Rows
from headwater.verification import reproduction
from headwater.verification.problems import Problem
from headwater.verification.shrinking import shrink
from headwater.verification.verifier import Tell, Verifier, within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.pipeline import Pipeline

SHRINK_S = 60.0


@dataclass
class Verification:
    """What was run and what came of it."""

    rows: Mapping[str, int]
    tables: tuple[str, ...]
    trials: int = 0
    seeds: tuple[int, int] = (0, 0)
    problems: list[Problem] = field(default_factory=list)
    notes: Mapping[str, str] = field(default_factory=dict)
    test: str | None = None
    """The text of a test that reproduces the first problem."""

    @property
    def holds(self) -> bool:
        return not self.problems

    def facts(self) -> list[str]:
        rows = ", ".join(f"{count} rows of {name}" for name, count in self.rows.items())
        return [
            f"input: {rows}",
            f"tables: {', '.join(self.tables)}",
            f"{self.trials} ways of running it, seeds {self.seeds[0]} to {self.seeds[1]}",
            f"floating-point values within a relative {TOLERANCE:g}",
            *(f"{name}: {note}" for name, note in self.notes.items()),
        ]


def verify(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    rows: Mapping[str, Rows] | None = None,
    limit: int = 10_000,
    record_into: Path | None = None,
    late_budget: int = 0,
    crashes: bool = False,
    seconds: float = 60.0,
    trials: int | None = None,
    seed: int = 0,
    module: str = "app",
    variable: str | None = "app",
    tell: Tell = lambda line: None,
) -> Verification:
    """Runs a pipeline many ways on one input and compares every table with its batch.

    The input is what the sources hold, or `rows` by source: lists as in a test, or files.

    Ends at the first broken law, after `seconds`, or after so many `trials`.
    """
    has_time = within(seconds)
    verifier = Verifier(pipeline, spark, late_budget=late_budget, crashes=crashes, tell=tell)
    verifier.record(rows=rows, limit=limit, into=record_into)
    result = Verification(
        rows={name: len(rows) for name, rows in verifier.recording.items()},
        tables=tuple(verifier.laws),
        seeds=(seed, seed),
        notes=verifier.notes,
    )
    tell(result.facts()[0])
    result.problems = verifier.determinism()
    if result.problems:
        return result
    tell("the same batch twice: equal")
    while result.trials == 0 or (has_time() and result.trials != trials):
        is_recorded = result.trials % 4 == 0
        trial = verifier.trial(seed + result.trials, is_recorded=is_recorded)
        problem = verifier.problem_of(trial)
        result.trials += 1
        result.seeds = (seed, trial.seed)
        tell(f"{result.trials}: {trial.describe()}: {'holds' if problem is None else 'BROKEN'}")
        if problem is not None:
            _explain(verifier, result, problem, module, variable, tell)
            break
        if result.trials == 1:
            result.problems = verifier.without_batches(has_time)
            if result.problems:
                break
    return result


def _explain(
    verifier: Verifier,
    result: Verification,
    problem: Problem,
    module: str,
    variable: str | None,
    tell: Tell,
) -> None:
    if problem.trial is None or not problem.columns:
        result.problems = [problem]
        return
    tell(f"shrinking {problem.trial.size} rows ...")
    small = shrink(problem, verifier.problem_of, within(SHRINK_S))
    result.problems = [small]
    assert small.trial is not None
    tell(f"shrunk to {small.trial.size} rows")
    closes = verifier.closing(small.trial) if small.is_end else {}
    if variable is not None:
        result.test = reproduction.test_file(
            small, module=module, variable=variable, closes=closes, keep=verifier.kept_tables
        )
