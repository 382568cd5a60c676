"""The smallest trial that still breaks a law."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from headwater.testing.kept import Row
from headwater.verification.problems import Problem
from headwater.verification.trials import Step, Trial

Judge = Callable[[Trial], Problem | None]
Place = tuple[int, str, Row]
"""A row with the step and the source at which it arrives."""


def shrink(problem: Problem, judge: Judge, has_time: Callable[[], bool]) -> Problem:
    """A problem of the same table with as little input as can be found while there is time."""
    return _Shrinking(problem, judge, has_time).smallest()


class _Shrinking:
    """Tries smaller trials; each that still breaks a law is the one to go on from."""

    def __init__(self, problem: Problem, judge: Judge, has_time: Callable[[], bool]) -> None:
        self._best = problem
        self._judge = judge
        self._has_time = has_time

    def smallest(self) -> Problem:
        self._fewer_circumstances()
        self._fewer_rows()
        self._fewer_circumstances()
        return self._best

    @property
    def _trial(self) -> Trial:
        assert self._best.trial is not None
        return self._best.trial

    def _breaks(self, trial: Trial) -> bool:
        if not self._has_time():
            return False
        found = self._judge(trial)
        if found is None or (found.table, found.law) != (self._best.table, self._best.law):
            return False
        self._best = found
        return True

    def _fewer_circumstances(self) -> None:
        """The same rows with fewer steps, events, partitions."""
        if self._trial.trigger is not None:
            self._breaks(dataclasses.replace(self._trial, trigger=None))
        if self._trial.partitions != 1:
            self._breaks(dataclasses.replace(self._trial, partitions=1))
        for number, step in enumerate(self._trial.steps):
            if step.event is not None:
                self._breaks(_without_event(self._trial, number))
        for number in reversed(range(1, len(self._trial.steps))):
            if number < len(self._trial.steps):
                self._breaks(_merged(self._trial, number))

    def _fewer_rows(self) -> None:
        """Leaves out halves, then quarters, down to single rows."""
        parts = 2
        while self._has_time():
            places = _places(self._trial)
            length = max(1, len(places) // parts)
            starts = range(0, len(places), length)
            has_shrunk = len(places) > 1 and any(
                self._breaks(_with(self._trial, places[:start] + places[start + length :]))
                for start in starts
            )
            if has_shrunk:
                parts = max(2, parts - 1)
            elif length == 1:
                break
            else:
                parts *= 2


def _without_event(trial: Trial, number: int) -> Trial:
    steps = list(trial.steps)
    steps[number] = dataclasses.replace(steps[number], event=None)
    return dataclasses.replace(trial, steps=tuple(steps))


def _merged(trial: Trial, number: int) -> Trial:
    """Two steps as one."""
    first, second = trial.steps[number - 1], trial.steps[number]
    names = dict.fromkeys((*first.rows, *second.rows))
    rows = {n: [*first.rows.get(n, []), *second.rows.get(n, [])] for n in names}
    both = Step(rows, first.event or second.event, second.is_checked)
    return dataclasses.replace(
        trial, steps=(*trial.steps[: number - 1], both, *trial.steps[number + 1 :])
    )


def _places(trial: Trial) -> list[Place]:
    return [
        (number, name, row)
        for number, step in enumerate(trial.steps)
        for name, rows in step.rows.items()
        for row in rows
    ]


def _with(trial: Trial, places: list[Place]) -> Trial:
    """The trial with these rows only; steps that are left empty go too."""
    steps = []
    for number, step in enumerate(trial.steps):
        rows: dict[str, list[Row]] = {}
        for at, name, row in places:
            if at == number:
                rows.setdefault(name, []).append(row)
        if rows:
            steps.append(dataclasses.replace(step, rows=rows))
    return dataclasses.replace(trial, steps=tuple(steps))
