"""Events as lines of JSON, for a log that programs read."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import queue
import threading
from typing import IO

from headwater.events import Event

_WAITING = 10_000
_CLOSES_S = 5.0


class JsonLines:
    """Writes each event as `{"at", "kind", "facts"}`, the form of the history, in a thread of its
    own: a reader that is slow holds nothing up. Beyond a limit events are left out."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._waiting: queue.Queue[str | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._work, name="headwater-json", daemon=True)
        self._thread.start()

    def report(self, event: Event) -> None:
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        record = {"at": now, "kind": type(event).__name__, "facts": dataclasses.asdict(event)}
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(json.dumps(record, default=str, separators=(",", ":")))

    def close(self) -> None:
        """Returns when everything is written, at the latest after seconds."""
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=_CLOSES_S)
        self._thread.join(_CLOSES_S)

    def _work(self) -> None:
        while (line := self._waiting.get()) is not None:
            # The reader of a pipe may go; the pipeline goes on.
            with contextlib.suppress(OSError, ValueError):
                print(line, file=self._out, flush=True)
