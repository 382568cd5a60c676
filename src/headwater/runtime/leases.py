"""Which driver may write to a storage: a lease that is renewed, and taken over when it is not.

<storage>/<pipeline>/lease/<number>   the newest number holds; its content changes while it lives

The lock of `ownership` dies with its process but is known to one folder of one machine. The lease
lies in the storage, so it holds between machines as well. Clocks are not compared: who waits looks
whether the content changes within the lease's time, by its own clock.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.errors import LeaseLost, StorageLeased
from headwater.local.processes import ProcessMark, mark
from headwater.runtime.storage import Files, Storage

_POLL_S = 0.2
_BEATS = 5
"""How often a lease is renewed within its time."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What stands in the storage. `text` tells one renewal from the next."""

    number: int
    text: str
    content: dict[str, Any]

    @property
    def is_released(self) -> bool:
        return bool(self.content.get("is_released"))

    @property
    def holder(self) -> str:
        return f"process {self.content.get('pid', '?')} on {self.content.get('host', '?')}"

    def is_surely_dead(self) -> bool:
        """Only processes of this machine, seen from the same place, can be asked for."""
        marks = self.content.get("processes")
        if not marks or self.content.get("machine") != _machine():
            return False
        return not any(ProcessMark(pid, started).is_alive() for pid, started in marks)


class Lease:
    """The right to write to the storage of one pipeline; at most one driver has it.

    A driver that was cut off or stood still finds a newer number when it renews, and ends.
    """

    def __init__(self, storage: Storage, files: Files, *, lasts_s: float) -> None:
        self._storage = storage
        self._files = files
        self._folder = storage.lease
        self._lasts_s = lasts_s
        self._number: int | None = None
        self._pids = [os.getpid()]
        self._seen: tuple[str, float] | None = None
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._writing = threading.Lock()

    @property
    def holder(self) -> str | None:
        """Who has it now, in words; None where nobody does."""
        held = self._held()
        return None if held is None or held.is_released else held.holder

    def take(self) -> None:
        """Raises StorageLeased. A holder of which nothing is known has the lease's time to show
        that it lives."""
        first = self._held()
        while not self.try_take():
            held = self._held()
            is_renewed = held is not None and first is not None and held.text != first.text
            if is_renewed or (first is None and held is not None):
                assert held is not None
                raise StorageLeased(self._storage.pipeline, held.holder, self._storage.root)
            time.sleep(_POLL_S)

    def try_take(self) -> bool:
        """Whether it is held now; to be called again and again by who waits."""
        held = self._held()
        if held is not None and not self._is_free(held):
            return False
        number = 1 if held is None else held.number + 1
        if not self._files.create(self._path(number), self._text(number)):
            return False
        self._number = number
        for old in self._numbers():
            if old < number:
                self._files.remove(self._path(old))
        return True

    def keep(self, on_lost: Callable[[LeaseLost], None], *, pids: list[int]) -> None:
        """Renews it from now on; `on_lost` is called once, from another thread. `pids` are all
        processes that must have ended before somebody else may write."""
        self._pids = pids
        self._beat()
        self._thread = threading.Thread(
            target=self._renew, args=(on_lost,), name="headwater-lease", daemon=True
        )
        self._thread.start()

    def release(self) -> None:
        self._is_over.set()
        with self._writing:
            number, self._number = self._number, None
            if number is not None and max(self._numbers(), default=0) == number:
                self._files.write(self._path(number), self._text(number, is_released=True))

    def _renew(self, on_lost: Callable[[LeaseLost], None]) -> None:
        renewed = time.monotonic()
        while not self._is_over.wait(self._lasts_s / _BEATS):
            try:
                self._beat()
                renewed = time.monotonic()
            except LeaseLost as lost:
                on_lost(lost)
                return
            except Exception as problem:
                # A storage that is away for longer than the lease lasts: somebody else may hold
                # it by now, and nobody here could know.
                if time.monotonic() - renewed > self._lasts_s:
                    self._number = None
                    on_lost(LeaseLost(self._storage.pipeline, str(problem), self._storage.root))
                    return

    def _beat(self) -> None:
        with self._writing:
            if self._number is None:
                return
            newest = self._held()
            if newest is None or newest.number > self._number:
                self._number = None
                who = "nobody" if newest is None else newest.holder
                raise LeaseLost(self._storage.pipeline, f"{who} holds it", self._storage.root)
            self._files.write(self._path(self._number), self._text(self._number))

    def _is_free(self, held: _Held) -> bool:
        if held.is_released or held.is_surely_dead():
            return True
        if self._seen is None or self._seen[0] != held.text:
            self._seen = (held.text, time.monotonic())
        return time.monotonic() - self._seen[1] > self._lasts_s

    def _held(self) -> _Held | None:
        number = max(self._numbers(), default=None)
        if number is None:
            return None
        try:
            text = self._files.read(self._path(number))
            content = json.loads(text)
        except Exception:
            # It is being written, or just replaced; every file system says so in its own way.
            text, content = f"{number}", {}
        return _Held(number, text, content if isinstance(content, dict) else {})

    def _numbers(self) -> list[int]:
        return [int(name) for name in self._files.names(self._folder) if name.isdigit()]

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number:010}"

    def _text(self, number: int, *, is_released: bool = False) -> str:
        marks = [found for pid in self._pids if (found := mark(pid)) is not None]
        return json.dumps(
            {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "machine": _machine(),
                "processes": [[m.pid, m.started] for m in marks],
                "beat": secrets.token_hex(8),
                "is_released": is_released,
            }
        )


def _machine() -> str | None:
    """What must be the same for a pid to mean the same process; None where nobody can say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None
