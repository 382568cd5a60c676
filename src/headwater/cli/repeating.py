"""An answer that is told again and again until Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

from headwater.cli.exit_codes import ExitCode


def repeated(told: Callable[[], str], every_s: float) -> ExitCode:
    """Prints what is told until Ctrl-C, also where a library takes the interrupt for itself."""
    is_over = threading.Event()

    def interrupted(number: int, frame: FrameType | None) -> None:
        is_over.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        while not is_over.is_set():
            print(told(), flush=True)
            is_over.wait(every_s)
    except KeyboardInterrupt:
        pass
    except Exception:
        # A library may say in words of its own that it was interrupted.
        if not is_over.is_set():
            raise
    finally:
        signal.signal(signal.SIGINT, before)
    return ExitCode.OK
