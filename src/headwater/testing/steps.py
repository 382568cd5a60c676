"""Queries that go step by step: as far as their data goes, or trigger by trigger of the clock that
they run by."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from headwater.definitions import TriggerKind, duration_ms
from headwater.errors import NeverIdle
from headwater.runtime.clock import ManualClock
from headwater.runtime.query import Query

_POLL_S = 0.003
WAIT_S = 180.0
"""So long may a step take."""


class Steps:
    """The running queries of a scene, moved on one by one."""

    def __init__(self, clock: ManualClock, queries: Mapping[str, Query]) -> None:
        self._clock = clock
        self._queries = queries

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """No query looks for new data meanwhile."""
        locks = [_lock(query) for query in self._queries.values() if query.is_active]
        for lock in locks:
            lock.lock()
        try:
            yield
        finally:
            for lock in locks:
                lock.unlock()

    def process(self, query: Query) -> None:
        """Returns when a query has processed everything there is."""
        if query.spec.trigger.is_bounded:
            if query.is_active:
                self._await_end(query)
            query.start()
            self._await_end(query)
        elif query.spec.trigger.kind is TriggerKind.DEFAULT:
            self.drain(query)
        else:
            self._fire_until_idle(query)

    def _await_end(self, query: Query) -> None:
        if not query.await_termination(WAIT_S):
            raise NeverIdle(query.name, int(WAIT_S))

    def drain(self, query: Query) -> None:
        with self._guarded(query):
            query.streaming_query.processAllAvailable()

    @contextlib.contextmanager
    def _guarded(self, query: Query) -> Iterator[None]:
        """A query that never finds an end is stopped, and that is an error."""
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            query.streaming_query.stop()

        timer = threading.Timer(WAIT_S, end)
        timer.start()
        try:
            yield
        except Exception:
            # What a failed query ended with is told by whoever asked for the step.
            if query.exception is None:
                raise
        finally:
            timer.cancel()
        if is_over.is_set():
            raise NeverIdle(query.name, int(WAIT_S))

    def _fire_until_idle(self, query: Query) -> None:
        if query.last_batch is None:
            self.await_trigger(query, None)
        deadline = time.monotonic() + WAIT_S
        while query.is_active and not self.advance_to(
            _next(self._clock.now_ms, _interval_ms(query)), watched=query
        ):
            if time.monotonic() > deadline:
                raise NeverIdle(query.name, int(WAIT_S))

    def advance_to(self, end_ms: int, watched: Query | None = None) -> bool:
        """Lets every processing-time trigger up to a moment fire; whether the watched query's
        last one found nothing to do."""
        timed = [q for q in self._queries.values() if q.spec.trigger.interval and q.is_active]
        is_idle = False
        while True:
            due = {q: _next(self._clock.now_ms, _interval_ms(q)) for q in timed}
            moment = min(due.values(), default=end_ms + 1)
            if moment > end_ms:
                break
            firing = [q for q in timed if due[q] == moment]
            before = {q: q.last_batch for q in firing}
            for query in firing:
                _forget_idle(query)
            self._clock.set(moment)
            for query in firing:
                found_nothing = self.await_trigger(query, before[query])
                is_idle = found_nothing if query is watched else is_idle
        self._clock.set(end_ms)
        return is_idle

    def await_trigger(self, query: Query, before: int | None) -> bool:
        """Returns when a trigger has ended; whether it found nothing to do."""
        deadline = time.monotonic() + WAIT_S
        while query.is_active:
            if query.last_batch != before and _is_told(query):
                return False
            if _execution(query).noNewData():
                return True
            if time.monotonic() > deadline:
                raise NeverIdle(query.name, int(WAIT_S))
            time.sleep(_POLL_S)
        return True


def _is_told(query: Query) -> bool:
    """Whether the progress of the last committed batch is there."""
    progress, last = query.progress, query.last_batch
    return progress is not None and last is not None and int(progress["batchId"]) >= last


def _next(now_ms: int, interval_ms: int) -> int:
    """When Spark fires next: at the next multiple of the interval."""
    return now_ms // interval_ms * interval_ms + interval_ms


def _interval_ms(query: Query) -> int:
    return duration_ms(query.spec.trigger.interval or "")


def _execution(query: Query) -> Any:
    return query.streaming_query._jsq.streamingQuery()


def _forget_idle(query: Query) -> None:
    """Spark sets this flag when a trigger finds nothing to do."""
    getattr(_execution(query), "noNewData_$eq")(False)


def _lock(query: Query) -> Any:
    """What Spark holds while it looks for new data."""
    return _execution(query).awaitProgressLock()
