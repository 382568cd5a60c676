"""Events as plain lines for a terminal or a build log."""

from __future__ import annotations

import sys

from headwater.events import Event, Report, StepFinished, StepStarted

_WORTH_TELLING_S = 1.0


def step_printer() -> Report:
    """A report that prints each step to standard error as it begins, and how long it took.

    Whole lines only: an error in the middle of a step starts on a line of its own. Steps that
    ended within a second get no second line.
    """

    def report(event: Event) -> None:
        match event:
            case StepStarted(step):
                print(f"{step} ...", file=sys.stderr, flush=True)
            case StepFinished(step, seconds) if seconds >= _WORTH_TELLING_S:
                print(f"{step}: {seconds:.0f} s", file=sys.stderr, flush=True)

    return report
