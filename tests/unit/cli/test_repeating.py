"""Ctrl-C ends what is told again and again, wherever it comes."""

import contextlib
import os
import signal
import threading

import pytest

from headwater.cli.repeating import repeated


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    assert not threading.Event().wait(60), "Ctrl-C comes while it waits"


def swallowed() -> str:
    with contextlib.suppress(KeyboardInterrupt):
        interrupt()
    return "an answer"


def worded() -> str:
    try:
        interrupt()
    except KeyboardInterrupt:
        raise RuntimeError("Query interrupted") from None
    return "an answer"


def passed_on() -> str:
    interrupt()
    return "an answer"


@pytest.mark.parametrize("told", [swallowed, worded, passed_on])
def test_an_interrupt_ends_it_whatever_a_library_makes_of_it(told: object) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert callable(told)
    assert repeated(told, 60) == 0
    assert signal.getsignal(signal.SIGINT) == before


def test_a_failure_is_one() -> None:
    def failing() -> str:
        raise RuntimeError("no table")

    with pytest.raises(RuntimeError, match="no table"):
        repeated(failing, 60)
