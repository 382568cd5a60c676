"""Advice while a pipeline runs: its history is read on, and what is new is told."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.events import AdviceGiven, Report
from headwater.observe.doctor.cases import WARM_UP_S, Recent
from headwater.observe.doctor.examination import cases_of
from headwater.observe.doctor.rules import advice
from headwater.runtime.about import read_about
from headwater.runtime.history import HistoryReader, history_folder

_EVERY_S = 60.0
_NEWEST_BYTES = 4_000_000


class Adviser:
    """Looks at one pipeline; hints are left to who asks for them."""

    def __init__(
        self, local_folder: Path, pipeline: str, report: Report, *, warm_up_s: float = WARM_UP_S
    ) -> None:
        self._folder = history_folder(local_folder, pipeline)
        self._reader = HistoryReader(self._folder, newest_bytes=_NEWEST_BYTES)
        self._report = report
        self._recent = Recent(can_wait=True, warm_up_s=warm_up_s)
        self._told: set[tuple[str, str]] = set()

    def look(self) -> None:
        """Tells what was not told before."""
        for record in self._reader.new():
            self._recent.add(record)
        for said in advice(cases_of(self._recent, read_about(self._folder) or {})):
            if said.is_hint or (said.rule, said.table) in self._told:
                continue
            self._told.add((said.rule, said.table))
            self._report(AdviceGiven(said.rule, said.table, said.finding, said.gain, said.setting))


@contextmanager
def advising(
    local_folder: Path,
    pipeline: str,
    report: Report,
    *,
    every_s: float = _EVERY_S,
    warm_up_s: float = WARM_UP_S,
) -> Iterator[None]:
    """Looks once a minute in a thread of its own."""
    adviser = Adviser(local_folder, pipeline, report, warm_up_s=warm_up_s)
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(every_s):
            # A file that is being replaced can be read a minute later.
            with contextlib.suppress(OSError, ValueError):
                adviser.look()

    thread = threading.Thread(target=work, name="headwater-advice", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
