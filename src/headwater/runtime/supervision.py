"""Which failed queries start again, and when."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headwater import errors
from headwater.errors import EnvironmentProblem, HeadwaterError

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
_DOUBLINGS = 10

UNREACHABLE = "_UNREACHABLE"
_STATE = re.compile(r"SQLSTATE: (\w{5})")
_OURS = re.compile(r"\bheadwater\.errors[\w.]*: (?:\S+:\d+: )?(?P<code>[A-Z_]+): ")
_PYTHON = re.compile(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Exit|Interrupt)): ", re.M)
_INCURABLE_STATES = ("0A", "21", "22", "23", "28", "2F", "3D", "42")
"""Classes of the SQL standard: data that does not fit, wrong queries, refused logins."""
_INCURABLE = re.compile(
    r"UnknownTopicOrPartition|AnalysisException|REJECTED_RECORD|STATE_STORE_\w*SCHEMA"
    r"|CANNOT_READ_STREAMING_STATE_FILE|MISSING_STATE_DIRECTORY|Incomplete log file"
    r"|IncompatibleClassChange|ClassNotFound|NoSuchMethod|data may have been lost",
    re.I,
)
_PASSING_PYTHON = {"ConnectionError", "TimeoutError", "OSError", "BrokenPipeError", "EOFError"}
_PASSING_PYTHON |= {"ConnectionRefusedError", "ConnectionResetError", "ConnectionAbortedError"}
# Of a job that Python started: its own names stand in the same text.
_PASSING_PYTHON |= {"ConnectException", "DisconnectException", "SocketException"}
_PASSING_PYTHON |= {"SocketTimeoutException", "TimeoutException"}
_WRAPPERS = ("ForeachBatch", "Py4J", "PySpark", "Spark", "StreamingQuery")
"""How the names of exceptions begin that only hand on another one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A query that ended with an error."""

    table: str
    texts: tuple[str, ...]
    """What the exception and its causes say, outermost first, with the names of their classes."""
    last_batch: int | None


def incurable(texts: Iterable[str]) -> str | None:
    """Why a restart would only fail again; None where it may help.

    >>> incurable(["[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"])
    'the same rows fail again (SQLSTATE 22012)'
    >>> incurable(["java.net.ConnectException: Connection refused"]) is None
    True
    """
    text = "\n".join(texts)
    codes = {match["code"] for match in _OURS.finditer(text)}
    known = {kind.code: kind for kind in _kinds()}
    for code in codes & set(known):
        passes = issubclass(known[code], EnvironmentProblem) and code.endswith(UNREACHABLE)
        return None if passes else f"it takes a change ({code})"
    for state in _STATE.findall(text):
        if state.startswith(_INCURABLE_STATES):
            return f"the same rows fail again (SQLSTATE {state})"
    if found := _INCURABLE.search(text):
        return f"it takes a change ({found.group(0)})"
    python = [name for name in _PYTHON.findall(text) if name.endswith(("Error", "Exception"))]
    raised = [name for name in python if not name.startswith(_WRAPPERS)]
    if "Traceback (most recent call last)" in text and raised:
        last = raised[-1]
        return None if last in _PASSING_PYTHON else f"the function fails again ({last})"
    return None


def unreachable(texts: Iterable[str]) -> str | None:
    """The code of an error that says that a system is not there at the moment; None for others.

    >>> unreachable(["headwater.errors.systems.X: REDIS_UNREACHABLE: table 't': no answer"])
    'REDIS_UNREACHABLE'
    """
    found = (match["code"] for match in _OURS.finditer("\n".join(texts)))
    return next((code for code in found if code.endswith(UNREACHABLE)), None)


def _kinds() -> Iterable[type[HeadwaterError]]:
    found = [getattr(errors, name) for name in errors.__all__]
    return [kind for kind in found if isinstance(kind, type) and hasattr(kind, "code")]


@dataclass
class Supervisor:
    """Counts the restarts of each table. A batch that was committed since the last one gives the
    whole budget back. A run without end waits for a system that is out of reach, however long."""

    budget: int
    _used: dict[str, int] = field(default_factory=dict)
    _waited: dict[str, int] = field(default_factory=dict)
    _last_batch: dict[str, int | None] = field(default_factory=dict)

    def wait_s(self, failure: Failure, *, ends_by_itself: bool) -> tuple[float | None, str]:
        """How long to wait before the restart, None where there is none; and why."""
        reason = incurable(failure.texts)
        if reason is not None:
            return None, reason
        if self._last_batch.get(failure.table, failure.last_batch) != failure.last_batch:
            self._used.pop(failure.table, None)
            self._waited.pop(failure.table, None)
        self._last_batch[failure.table] = failure.last_batch
        is_patient = self.budget > 0 and not ends_by_itself
        if is_patient and (absent := unreachable(failure.texts)):
            waited = self._waited[failure.table] = self._waited.get(failure.table, 0) + 1
            return _growing_s(waited), f"restart {waited} until it is there ({absent})"
        used = self._used.get(failure.table, 0)
        if used >= self.budget:
            return None, f"{used} restarts brought no batch further"
        self._used[failure.table] = used + 1
        return _growing_s(used + 1), f"restart {used + 1} of {self.budget}"


def _growing_s(time: int) -> float:
    return min(FIRST_WAIT_S * 2.0 ** min(time - 1, _DOUBLINGS), LONGEST_WAIT_S)


class Timers:
    """Calls functions later, each in a thread of its own, until they are all called off."""

    def __init__(self) -> None:
        self._timers: dict[str, threading.Timer] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def after(self, name: str, wait_s: float, call: Callable[[], None]) -> None:
        with self._lock:
            if self._is_closed:
                return
            timer = threading.Timer(wait_s, call)
            timer.daemon = True
            self._timers[name] = timer
            timer.start()

    def cancel(self, name: str) -> None:
        with self._lock:
            timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            timers, self._timers = list(self._timers.values()), {}
        for timer in timers:
            timer.cancel()
            if timer is not threading.current_thread():
                timer.join()
