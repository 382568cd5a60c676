"""A DStream program as other processes see it: `headwater status` finds it, `headwater stop` ends
it, and its history outlives it.

`headwater dstream run` announces the program that it is about to run, and the context that starts
then shows itself under that name. A program that is started in any other way stays by itself.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.dstream.listener import BatchEvent, BatchInfo, StreamingListener
from headwater.events import QueryFailed, QueryStarted, QueryStopped
from headwater.runtime.control import ControlServer
from headwater.runtime.history import HistoryWriter, history_folder
from headwater.runtime.ownership import Ownership
from headwater.runtime.progress import batch_completed
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.dstream.engine import Engine

COMMAND = "dstream run"
_RECENT = 100


@dataclass(frozen=True, slots=True)
class Announced:
    """A program that is about to start, by the name under which it will be found."""

    name: str
    program: str
    settings: Settings
    stop: Callable[[bool], None]
    """Called by who wants it to end, from any thread; with what has come until then, or not."""
    started: Callable[[], None]
    """Called once the program runs."""


_announced: Announced | None = None


def announce(announced: Announced | None) -> None:
    """Names the next context of this process; None: it stays by itself."""
    global _announced
    _announced = announced


def presence() -> Presence | None:
    """What the starting context has to show; None where nobody announced it."""
    return None if _announced is None else Presence(_announced)


class Presence(StreamingListener):
    """One program from its start to its end."""

    def __init__(self, announced: Announced) -> None:
        folder = announced.settings.local_folder
        self._name = announced.name
        self._program = announced.program
        self._ownership = Ownership(folder, announced.name)
        self._history = HistoryWriter(history_folder(folder, announced.name))
        self._control: ControlServer | None = None
        self._recent: deque[dict[str, Any]] = deque(maxlen=_RECENT)
        self._engine: Engine | None = None
        self._stop = announced.stop
        self._started = announced.started

    def take(self) -> None:
        """Raises PipelineOwned where the program already runs."""
        self._ownership.take()

    def open(self, engine: Engine) -> None:
        """From now on it can be asked."""
        self._engine = engine
        self._history.start()
        resumed_after = engine.last_committed()
        self._history.report(QueryStarted(self._name, engine.home, "", resumed_after))
        self._control = ControlServer(self._ownership.record.token, self._answer)
        self._control.start()
        self._ownership.publish(
            port=self._control.port, app=self._program, tables=(self._name,), command=COMMAND
        )
        self._started()

    def close(self, failure: BaseException | None) -> None:
        """The record and the history say how it ended."""
        if self._control is None:
            self._ownership.let_go()
            return
        self._control.close()
        last, failures = self._last_batch(), {}
        if failure is None:
            self._history.report(QueryStopped(self._name, last))
        else:
            failures[self._name] = str(failure)
            self._history.report(QueryFailed(self._name, last, str(failure)))
        self._history.close()
        self._ownership.release({self._name: last}, failures)

    def onBatchCompleted(self, batchCompleted: BatchEvent) -> None:
        assert self._engine is not None
        interval_s = self._engine.interval_ms / 1000
        progress = as_progress(self._engine.batch, batchCompleted.batchInfo(), interval_s)
        self._recent.append(progress)
        self._history.report(batch_completed(self._name, progress))

    def _last_batch(self) -> int | None:
        return None if self._engine is None else self._engine.last_committed()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        command = request.get("command")
        if command == "status":
            return {"tables": [self._summary()]}
        if command == "recent":
            return {"recent": list(self._recent)}
        if command == "stop":
            self._stop(bool(request.get("drain")))
            return {"stopping": [self._name], **self._summary()}
        raise ValueError(f"a DStream program knows no {command!r}: stop it and run it again")

    def _summary(self) -> dict[str, Any]:
        since = dt.datetime.fromtimestamp(self._ownership.record.started_at, dt.UTC)
        return {
            "table": self._name,
            "state": "running",
            "since": since.isoformat(timespec="seconds"),
            "reason": "started",
            "next_try": None,
            "last_batch": self._last_batch(),
            "progress": self._recent[-1] if self._recent else None,
            "exception": None,
        }


def as_progress(batch: int, info: BatchInfo, interval_s: float) -> dict[str, Any]:
    """A batch in the words of a query's progress, which everything that observes understands.

    >>> from headwater.dstream.listener import BatchTime, StreamInputInfo
    >>> inputs = {0: StreamInputInfo(0, 30)}
    >>> done = as_progress(4, BatchInfo(BatchTime(2000), 2000, inputs, 2010, 2310), 2.0)
    >>> done["inputRowsPerSecond"], done["processedRowsPerSecond"]
    (15.0, 100.0)
    """
    began = dt.datetime.fromtimestamp(info.submissionTime() / 1000, dt.UTC)
    took_s = max(info.processingDelay(), 1) / 1000
    return {
        "batchId": batch,
        "timestamp": began.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "numInputRows": info.numRecords(),
        "inputRowsPerSecond": round(info.numRecords() / interval_s, 1),
        "processedRowsPerSecond": round(info.numRecords() / took_s, 1),
        "durationMs": {
            "triggerExecution": info.totalDelay(),
            "addBatch": info.processingDelay(),
            "schedulingDelay": info.schedulingDelay(),
        },
    }
