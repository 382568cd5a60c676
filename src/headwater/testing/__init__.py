"""Tests of streams without a broker and without a sleep.

    from headwater.testing import add, advance_event_time, check, process

    def test_a_window_is_averaged(harness):
        harness(iot).run(
            add("signals", [("dev1", "12:00:05", 20.0), ("dev1", "12:00:10", 22.0)]),
            process(),
            check("device_minutes", [("dev1", "12:00:00", 21.0)]),
        )

`harness` is a pytest fixture that comes with the package; elsewhere, `Harness(iot).run(…)`.
"""

from headwater.testing.actions import (
    Action,
    add,
    advance,
    advance_event_time,
    check,
    check_late,
    check_new,
    check_progress,
    check_rejected,
    check_state,
    check_watermark,
    crash,
    expect_failure,
    process,
    reload_lookup,
    restart,
    stop,
    train,
)
from headwater.testing.harness import Harness, run_all
from headwater.testing.tape import raw

__all__ = [
    "Action",
    "Harness",
    "add",
    "advance",
    "advance_event_time",
    "check",
    "check_late",
    "check_new",
    "check_progress",
    "check_rejected",
    "check_state",
    "check_watermark",
    "crash",
    "expect_failure",
    "process",
    "raw",
    "reload_lookup",
    "restart",
    "run_all",
    "stop",
    "train",
]
