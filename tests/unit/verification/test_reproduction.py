from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from headwater.verification.problems import Problem
from headwater.verification.reproduction import test_file as text_of_test
from headwater.verification.trials import CRASH_AFTER, CRASH_BEFORE, RESTART, Step, Trial

SOME, NONE = {"orders": [(1,)]}, {"orders": []}


def script(steps: Sequence[Step], *, keep: Sequence[str] = ()) -> list[str]:
    """The words of the script in their order, without rows."""
    problem = Problem("stored", "a law", trial=Trial(tuple(steps)), expected=[(1,)])
    text = text_of_test(problem, module="app", variable="app", closes={}, keep=keep)
    return re.findall(r"^        (\w+\([^,\[]*)", text, flags=re.MULTILINE)


STOPPED = ["process()", "stop()", "restart()", "process()"]


@pytest.mark.parametrize(
    ("steps", "keep", "expected"),
    [
        ([Step(SOME, RESTART)], (), ["add('orders'", *STOPPED]),
        (
            [Step(SOME, CRASH_BEFORE)],
            (),
            ["add('orders'", 'crash("before_sink"', "restart()", "process()"],
        ),
        # The harness can crash a sink that it has replaced, in a batch that there is.
        ([Step(SOME, CRASH_BEFORE)], ("stored",), ["add('orders'", *STOPPED]),
        ([Step(SOME), Step(NONE, CRASH_BEFORE)], (), ["add('orders'", "process()", *STOPPED]),
        ([Step(NONE, CRASH_AFTER)], (), STOPPED),
        (
            [Step(SOME), Step(NONE, CRASH_AFTER)],
            ("stored",),
            ["add('orders'", "process()", 'crash("after_sink"', "restart()", "process()"],
        ),
    ],
)
def test_a_crash_is_written_only_where_the_harness_can_reach_it(
    steps: list[Step], keep: Sequence[str], expected: list[str]
) -> None:
    assert script(steps, keep=keep) == [*expected, "check('stored'"]
