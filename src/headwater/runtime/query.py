"""One table while it runs."""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.definitions import Trigger, TriggerKind
from headwater.errors import CheckpointDamaged, HeadwaterError, QueryFailedError
from headwater.events import QueryFailed, QueryStarted, QueryStopped, Report
from headwater.runtime.failures import explained, first_line, messages_of, texts_of
from headwater.runtime.specification import QuerySpec
from headwater.runtime.supervision import Failure

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.02
_WAIT_S = 0.25
_CODE = re.compile(r"[A-Z][A-Z_]+: ")


class QueryState(enum.Enum):
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Change:
    """What a query came to, why and when; `next_try` where it will be started again."""

    state: QueryState
    reason: str
    since: dt.datetime
    next_try: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """A started Spark query and the batch after which it resumed."""

    streaming_query: StreamingQuery
    resumed_after: int | None


class Query:
    """Status, progress, exception, stop and restart of one running table."""

    def __init__(
        self,
        spec: QuerySpec,
        launch: Callable[[QuerySpec], Launched],
        last_committed: Callable[[], int | None],
        report: Report,
    ) -> None:
        self.spec = spec
        self._launch = launch
        self._last_committed = last_committed
        self._last_known: int | None = None
        self._report = report
        self._query: StreamingQuery | None = None
        self._thread: Any = None
        self._is_told = False
        self._was_forced = False
        self._is_cut_off = False
        self._asked: str | None = None
        self._change = Change(QueryState.STARTING, "its first start", _now())
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def streaming_query(self) -> StreamingQuery:
        """Spark's own query, for everything that is not offered here."""
        assert self._query is not None
        return self._query

    @property
    def state(self) -> QueryState:
        return self.last_change.state

    @property
    def last_change(self) -> Change:
        """The state with its reason and time."""
        change = self._change
        if change.state is QueryState.RUNNING and not self.is_active:
            # It has just ended, and nobody has looked at it yet.
            return self._end(_now())
        return change

    def _end(self, now: dt.datetime, *, was_forced: bool = False, why_final: str = "") -> Change:
        if problem := self.exception:
            final = f"; no restart: {why_final}" if why_final else ""
            return Change(QueryState.FAILED, f"{told_shortly(problem)}{final}", now)
        reason = self._asked or "everything that was there is read"
        cut_off = "; its batch was cut off and is read again" if was_forced else ""
        return Change(QueryState.STOPPED, f"{reason}{cut_off}", now)

    @property
    def _is_restarting(self) -> bool:
        return self._change.state is QueryState.RESTARTING

    @property
    def is_active(self) -> bool:
        # Spark's `isActive` is false as soon as the state says terminated, while the last batch
        # still runs.
        return self._thread is not None and bool(self._thread.isAlive())

    @property
    def status(self) -> dict[str, Any]:
        """State, since when and why, and the next try where there is one; while it runs, Spark's
        message, whether data is available and whether a trigger is active."""
        change = self.last_change
        told: dict[str, Any] = {
            "state": change.state.value,
            "since": change.since,
            "reason": change.reason,
            "next_try": change.next_try,
        }
        return told | (dict(self.streaming_query.status) if self.is_active else {})

    @property
    def progress(self) -> dict[str, Any] | None:
        """The last progress, as Spark reports it."""
        # PySpark's own `lastProgress` expects entries that a batch of no time does not have.
        last = self.streaming_query._jsq.lastProgress()
        return None if last is None else json.loads(last.json())

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        return [json.loads(p.json()) for p in self.streaming_query._jsq.recentProgress()]

    @property
    def last_batch(self) -> int | None:
        """The last committed batch, as the checkpoint says; the last one known where the storage is
        out of reach, which raises whatever its client does."""
        with contextlib.suppress(Exception):
            self._last_known = self._last_committed()
        return self._last_known

    @property
    def exception(self) -> QueryFailedError | CheckpointDamaged | None:
        """Why the query failed; None while it runs or after an ordinary stop."""
        if self._query is None or self.is_active:
            return None
        thrown = self._thrown()
        if thrown is None:
            return None
        messages = messages_of(thrown)
        location = self.spec.table.location
        return explained(self.name, location, messages, last_batch=self.last_batch)

    def _thrown(self) -> Any | None:
        assert self._query is not None
        if self._is_cut_off:
            return None
        thrown = self._query._jsq.exception()
        return None if thrown.isEmpty() else thrown.get()

    @property
    def failure(self) -> Failure | None:
        """What a supervisor has to know of an ended query; None where it did not fail."""
        if self._query is None or self.is_active:
            return None
        thrown = self._thrown()
        if thrown is None:
            return None
        return Failure(self.name, tuple(texts_of(thrown)), self.last_batch)

    def await_restart(self, reason: str, wait_s: float) -> None:
        """It has failed and will be started again after a while."""
        now = _now()
        with self._lock:
            next_try = now + dt.timedelta(seconds=wait_s)
            self._change = Change(QueryState.RESTARTING, reason, now, next_try)
            self._is_told = True

    def give_up_restart(self, why: str, *, is_told: bool = False) -> None:
        """It stays as it ended; `is_told`: that is reported already."""
        with self._lock:
            if self._is_restarting:
                reason = why if is_told else f"{self._change.reason}; {why}"
                self._change = Change(QueryState.FAILED, reason, _now())
                self._is_told = is_told

    @property
    def is_going_on(self) -> bool:
        """Whether it runs, will run again, or has ended without anybody having said so."""
        if self._query is None:
            return False
        return self.is_active or self._is_restarting or not self._is_told

    def start(self) -> None:
        with self._lock:
            before = self._change
            launched = self._launch(self.spec)
            self._query = launched.streaming_query
            self._thread = _execution(self._query).queryExecutionThread()
            self._is_told = False
            self._was_forced = False
            self._is_cut_off = False
            self._asked = None
            # Last: who looks without the lock never sees a query that has ended for good.
            self._change = Change(QueryState.RUNNING, _why_running(before, launched), _now())
        self._report(
            QueryStarted(
                self.name, str(self._query.id), str(self._query.runId), launched.resumed_after
            )
        )

    def restart(self, *, deadline_s: float = 30) -> None:
        """Stops the query where it runs and starts it on its checkpoint."""
        self.stop(deadline_s=deadline_s)
        self.start()

    def stop(self, *, deadline_s: float = 30) -> bool:
        """Finishes the running batch, commits and stops; True where it had to be forced."""
        was_forced = self.finish(deadline_s=deadline_s)
        self.tell_end(was_forced=was_forced)
        return was_forced

    def finish(self, *, deadline_s: float) -> bool:
        """As `stop`, without reporting it."""
        if self._query is None:
            return False
        self.request_stop()
        was_forced = self._was_forced = self._was_forced or not self._idle_within(deadline_s)
        # A continuous query is stopped in the midst of its tasks, which a cluster takes for a
        # failure of theirs.
        self._is_cut_off = self._is_cut_off or (self.is_active and not self._is_micro_batch)
        try:
            self._query.stop()
        except Exception:
            # Code that cannot be interrupted outlives Spark's own time-out; its batch is not
            # committed and is read again.
            if not was_forced:
                raise
        return was_forced

    def abandon(self) -> None:
        """Interrupts the running batch, which is not committed."""
        if self._query is not None and self.is_active:
            self._was_forced, self._asked = True, "another driver has taken over"
            with contextlib.suppress(Exception):
                self._query.stop()

    def drain(self, *, deadline_s: float) -> None:
        """Finishes the running batch and goes on with what is there now, to end by itself."""
        if self.spec.trigger.is_bounded or not self.is_active or self.finish(deadline_s=deadline_s):
            return
        self.spec = self.spec.with_trigger(Trigger.available_now())
        self.start()

    def request_stop(self) -> None:
        """The running batch is the last one; returns at once."""
        if self._query is None or not self.is_active:
            return
        self._asked = "on request"
        if self._is_micro_batch:
            _let_finish(self._query)

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Whether the query ended within the time-out (None: waits for ever)."""
        has_ended = self.await_end(timeout_s)
        if has_ended:
            self.tell_end(was_forced=False)
        return has_ended

    def await_end(self, timeout_s: float | None = None) -> bool:
        """As `await_termination`, without reporting it."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self.is_active:
            if deadline is not None and time.monotonic() > deadline:
                return False
            self.wait(_WAIT_S if deadline is None else min(_WAIT_S, deadline - time.monotonic()))
        return True

    def wait(self, timeout_s: float) -> None:
        """Returns when the query ends, at the latest after the time-out; waits in the JVM, so
        that nothing polls beside a running batch."""
        if self._thread is not None:
            self._thread.join(max(1, int(timeout_s * 1000)))

    @property
    def has_ended_untold(self) -> bool:
        return self._query is not None and not self._is_told and not self.is_active

    def tell_end(self, *, was_forced: bool, why_final: str = "") -> None:
        """Reports once that the query ended, and how; `why_final`: why a failed one is not started
        again."""
        with self._lock:
            if self._is_told:
                return
            self._is_told = True
            if self._change.state is QueryState.RUNNING:
                self._change = self._end(_now(), was_forced=was_forced, why_final=why_final)
        if problem := self.exception:
            self._report(QueryFailed(self.name, self.last_batch, str(problem)))
        else:
            self._report(QueryStopped(self.name, self.last_batch, was_forced))

    def summary(self) -> dict[str, Any]:
        """State, status and last progress as plain values."""
        problem, status = self.exception, self.status
        return {
            "table": self.name,
            **change_values(self.last_change),
            "message": status.get("message"),
            "last_batch": self.last_batch,
            "progress": self.progress,
            "exception": str(problem) if problem else None,
        }

    @property
    def _is_micro_batch(self) -> bool:
        return self.spec.trigger.kind is not TriggerKind.CONTINUOUS

    def _idle_within(self, deadline_s: float) -> bool:
        assert self._query is not None
        deadline = time.monotonic() + deadline_s
        while self.is_active and self._is_micro_batch and self._query.status["isTriggerActive"]:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True


def change_values(change: Change) -> dict[str, str | None]:
    """A change as JSON can have it."""
    next_try = change.next_try
    return {
        "state": change.state.value,
        "since": change.since.isoformat(timespec="seconds"),
        "reason": change.reason,
        "next_try": None if next_try is None else next_try.isoformat(timespec="seconds"),
    }


def told_shortly(problem: Exception) -> str:
    """The code of an error and what was found, in one line."""
    if not isinstance(problem, HeadwaterError):
        return first_line(problem)
    found = (problem.found or problem.what).split("\n", 1)[0]
    return found if _CODE.match(found) else f"{problem.code}: {found}"


def _why_running(before: Change, launched: Launched) -> str:
    batch = launched.resumed_after
    begun = "from the beginning" if batch is None else f"goes on after batch {batch}"
    return f"{begun}; {before.reason}" if before.state is QueryState.RESTARTING else begun


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _let_finish(query: StreamingQuery) -> None:
    """Spark's `stop` interrupts the running batch. A query that finds its state terminated at
    the end of a batch commits it and begins no other."""
    execution = _execution(query)
    loader = execution.getClass().getClassLoader()
    name = "org.apache.spark.sql.execution.streaming.runtime.TERMINATED$"
    terminated = loader.loadClass(name).getField("MODULE$").get(None)
    execution.state().set(terminated)


def _execution(query: StreamingQuery) -> Any:
    """Spark's execution behind the wrapper that user code holds."""
    return query._jsq.streamingQuery()
