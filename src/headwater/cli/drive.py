"""Drives a started pipeline until it ends or somebody wants it to."""

from __future__ import annotations

import enum
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.cli.exit_codes import ExitCode
from headwater.cli.signals import StopSignals, end_at_once
from headwater.cli.views import View
from headwater.errors import HeadwaterError
from headwater.events import BatchCompleted, Event, QueryFailed
from headwater.observe.board import Board
from headwater.observe.grid import grid
from headwater.observe.rows import Rows

if TYPE_CHECKING:
    from headwater.runtime.running import RunningPipeline

_TICK_S = 0.2
_GRACE_S = 15.0


class Ending(enum.Enum):
    """Why a pipeline is being stopped."""

    BY_ITSELF = "every table has ended"
    SIGNAL = "a signal asked for it"
    COMMAND = "headwater stop asked for it"
    TIME = "its time is over"
    INPUT = "its input has ended"
    LEASE = "another driver may have taken over"


@dataclass
class Driver:
    """Hands events to the view and keeps what the end needs to know.

    `report` is called from Spark's listener thread and only notes; files are read and text is
    printed by `drive`, in the main thread.
    """

    view: View
    signals: StopSignals
    first_rows: Callable[[str], Rows | None]
    board: Board = field(default_factory=Board)
    _failures: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    _committed: set[str] = field(default_factory=set)
    _shown: set[str] = field(default_factory=set)

    def report(self, event: Event) -> None:
        self.board.report(event)
        self.view.report(event)
        if isinstance(event, QueryFailed):
            self._failures.put(event.message)
        if isinstance(event, BatchCompleted) and event.input_rows:
            self._committed.add(event.table)

    def drive(
        self,
        run: RunningPipeline,
        *,
        for_s: float | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> Ending:
        """Returns why it ended, when all queries have, or as soon as anything asks for a stop."""
        end = None if for_s is None else time.monotonic() + for_s
        while not run.await_termination(timeout_s=_TICK_S):
            self._speak()
            if self.signals.requested.is_set():
                return Ending.SIGNAL
            if run.lost is not None:
                return Ending.LEASE
            if run.stop_requested.is_set():
                return Ending.COMMAND
            if end is not None and time.monotonic() >= end:
                return Ending.TIME
            if is_over():
                return Ending.INPUT
        return Ending.BY_ITSELF

    def wait(self, run: RunningPipeline, is_over: Callable[[], bool], *, timeout_s: float) -> bool:
        """Whether the condition came true in time, or every query ended; heeds no signal."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if is_over() or not run.is_active:
                return True
            self._speak()
            time.sleep(_TICK_S)
        return False

    def stop(self, run: RunningPipeline, *, deadline_s: float, drains: bool = False) -> bool:
        """Lets running batches finish, or with `drains` processes what is there; True where one
        was stopped by force at the deadline."""
        forced: list[bool] = []
        problem: list[BaseException] = []

        def work() -> None:
            try:
                forced.append(run.stop(deadline_s=deadline_s, drains=drains))
            except BaseException as raised:
                problem.append(raised)

        # In a thread of its own, so that a JVM that no longer answers cannot hold the deadline.
        worker = threading.Thread(target=work, name="headwater-stop", daemon=True)
        worker.start()
        worker.join(deadline_s + _GRACE_S)
        if worker.is_alive():
            end_at_once(ExitCode.FORCED, f"Stopped by force: no answer within {deadline_s:.0f} s")
        if problem:
            raise problem[0]
        self._speak()
        return forced[0]

    def _speak(self) -> None:
        while not self._failures.empty():
            self.view.complain(self._failures.get())
        for table in sorted(self._committed - self._shown):
            self._show_first_rows(table)

    def _show_first_rows(self, table: str) -> None:
        self._committed.discard(table)
        try:
            found = self.first_rows(table)
        except (HeadwaterError, OSError) as problem:
            self._shown.add(table)
            self.view.complain(f"{table}: its first rows cannot be shown: {problem}")
            return
        if found is not None and found.rows:
            self._shown.add(table)
            self.view.say(f"first rows of {table}:\n{grid(found.columns, found.rows)}")
