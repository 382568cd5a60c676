"""Signals sent to this very process: a request first, then nothing but the end."""

import os
import signal
import subprocess
import sys

from headwater.cli.signals import StopSignals


def test_a_signal_is_a_request_and_interrupts_nothing() -> None:
    with StopSignals() as signals:
        assert not signals.requested.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.requested.is_set()


def test_sigterm_to_a_process_and_its_group_is_one_request() -> None:
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.requested.is_set()


def test_a_second_sigterm_later_ends_the_process() -> None:
    code = (
        "import os, signal; from headwater.cli import signals\n"
        "signals._SAME_REQUEST_S = -1.0\n"
        "with signals.StopSignals():\n"
        "    os.kill(os.getpid(), signal.SIGTERM); os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('not reached')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")


def test_the_handlers_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopSignals():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_a_second_ctrl_c_ends_the_process() -> None:
    code = (
        "import os, signal; from headwater.cli.signals import StopSignals\n"
        "with StopSignals():\n"
        "    os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGINT)\n"
        "    print('not reached')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")
    assert "Ended at once" in done.stderr


def test_what_was_started_for_this_process_ends_with_it() -> None:
    code = (
        "import os, signal; from headwater.cli.signals import StopSignals, ended_with_us\n"
        "with StopSignals(), ended_with_us(int(os.sys.argv[1])):\n"
        "    os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGINT)\n"
    )
    with subprocess.Popen(["sleep", "600"]) as server:
        subprocess.run([sys.executable, "-c", code, str(server.pid)], timeout=60)
        assert server.wait(timeout=60) == -signal.SIGTERM
