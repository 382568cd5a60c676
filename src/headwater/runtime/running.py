"""A pipeline while it runs: its queries, who may talk to it, and how it ends."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from headwater.definitions import TriggerKind, View
from headwater.errors import LeaseLost
from headwater.events import Event, QueryFailed, QueryRestarting, Report, both
from headwater.graph import Graph
from headwater.runtime.about import write_about
from headwater.runtime.claims import Claim
from headwater.runtime.control import ControlServer
from headwater.runtime.copying import copied
from headwater.runtime.history import HistoryWriter, history_folder
from headwater.runtime.lateness import SAVED_EVERY_S
from headwater.runtime.queries import Companion, RunningQueries
from headwater.runtime.query import Query, change_values, told_shortly
from headwater.runtime.session import CHANGELOG
from headwater.runtime.specification import QuerySpec
from headwater.runtime.supervision import UNREACHABLE, Failure, Supervisor, Timers
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_THREAD_ENDS_S = 0.5
"""How long Spark's thread may take to end after its query did."""
_SAVE_MEASURED = "save what was measured"
"""Of a timer; no table can be called so."""


class RunningPipeline(RunningQueries):
    """Queries by table name, from start to stop; other processes find it and talk to it.

    >>> run = app.start()                      # doctest: +SKIP
    >>> run["even"].progress["numInputRows"]   # doctest: +SKIP
    >>> run.stop()                             # doctest: +SKIP
    """

    def __init__(
        self,
        spark: SparkSession,
        graph: Graph,
        specs: Sequence[QuerySpec],
        settings: Settings,
        report: Report,
        *,
        upstream: Sequence[QuerySpec] = (),
        app: str | None = None,
        claim: Claim | None = None,
        companion: Companion | None = None,
    ) -> None:
        self._folder = history_folder(settings.local_folder, graph.definitions.pipeline)
        self._history = HistoryWriter(self._folder)
        told = both(report, self._history.report)
        super().__init__(
            spark, graph, specs, settings, told, upstream=upstream, companion=companion
        )
        self._app = app
        self._supervisor = Supervisor(settings.restarts)
        self._timers = Timers()
        self._ending = threading.Lock()
        self._claim = claim or Claim(spark, settings, self.name)
        self.lost: LeaseLost | None = None
        """Set when another driver has taken over."""
        self._control: ControlServer | None = None

    def start(self) -> Self:
        self._claim.take()
        specs = list(self._specs.values())
        # A disk that refuses this refuses the checkpoint as well, and that error says more.
        with contextlib.suppress(OSError):
            has_changelog = self._spark.conf.get(CHANGELOG, "false") == "true"
            write_about(
                self._folder,
                self._graph,
                specs,
                self.settings,
                self._app,
                has_changelog=has_changelog,
            )
        self._history.start()
        self._listener.on_end = self._wake
        try:
            self._claim.keep(self._give_up)
            super().start()
            self._timers.after(_SAVE_MEASURED, SAVED_EVERY_S, self._save_measured)
            ownership = self._claim.ownership
            self._control = ControlServer(ownership.record.token, self._answer)
            self._control.start()
            ownership.publish(
                port=self._control.port,
                app=self._app,
                tables=tuple(self._queries),
                flags=self.settings.flags,
            )
        except BaseException:
            self.stop()
            raise
        return self

    def tell(self, event: Event) -> None:
        """Says something about this run to whoever hears its events, and to its history."""
        self._report(event)

    def stop(self, *, deadline_s: float | None = None, drains: bool = False) -> bool:
        self._timers.close()
        for query in self._queries.values():
            query.give_up_restart("the pipeline was stopped before")
        return super().stop(deadline_s=deadline_s, drains=drains)

    def raise_failure(self) -> None:
        if self.lost is not None:
            raise self.lost
        super().raise_failure()

    def _give_up(self, lost: LeaseLost) -> None:
        """Another driver may write by now: no batch is finished here."""
        self.lost = lost
        self.stop_requested.set()
        for query in list(self._queries.values()):
            query.abandon()
        # A restart that was under way has ended then, and may have begun a query.
        self._timers.close()
        for query in list(self._queries.values()):
            query.abandon()

    def _save_measured(self) -> None:
        """Again and again: who gives advice on a run that never stops needs it."""
        # Whatever the storage says now, it is tried again, and at the end of the run.
        with contextlib.suppress(Exception):
            self._hearing.save()
        self._timers.after(_SAVE_MEASURED, SAVED_EVERY_S, self._save_measured)

    def _wake(self) -> None:
        """Called when Spark says that a query has ended; looks at it once its thread has."""
        self._timers.after("ended", 0, self._look)

    def _look(self) -> None:
        for query in list(self._queries.values()):
            if not query.is_going_on:
                continue
            query.wait(_THREAD_ENDS_S)
            if query.has_ended_untold:
                self._on_end(query)

    def _on_end(self, query: Query) -> None:
        with self._ending:
            if not query.has_ended_untold:
                return
            failure, problem = query.failure, query.exception
            why_final: str | None = ""
            if failure is not None and problem is not None:
                why_final = self._why_final(query, failure, problem)
            if why_final is not None:
                query.tell_end(was_forced=False, why_final=why_final)

    def _why_final(self, query: Query, failure: Failure, problem: Exception) -> str | None:
        """None where a failed query is started again after a while."""
        if self._is_stopped or self.stop_requested.is_set():
            return "the pipeline stops"
        kind = self._specs[query.name].trigger.kind
        ends_by_itself = kind in (TriggerKind.ONCE, TriggerKind.AVAILABLE_NOW)
        wait_s, why = self._supervisor.wait_s(failure, ends_by_itself=ends_by_itself)
        if wait_s is None:
            return why
        reason = told_shortly(problem)
        query.await_restart(f"{why}: {reason}", wait_s)
        self._report(QueryRestarting(query.name, failure.last_batch, reason, why, wait_s))
        self._timers.after(query.name, wait_s, lambda: self._restart(query))
        return None

    def _restart(self, query: Query) -> None:
        if self.lost is not None:
            return
        try:
            query.start()
        except Exception as problem:
            # Whatever a start raises is a failure of this table; the others go on.
            failure = Failure(query.name, (_text_of(problem),), query.last_batch)
            why_final = self._why_final(query, failure, problem)
            if why_final is not None:
                reason = f"{told_shortly(problem)}; no restart: {why_final}"
                query.give_up_restart(reason, is_told=True)
                self._report(QueryFailed(query.name, query.last_batch, str(problem)))

    def _call_off(self, table: str) -> None:
        """A restart that was to come does not."""
        self._timers.cancel(table)
        self[table].give_up_restart("it was called off")

    def _ended(self, last_batches: Mapping[str, int | None]) -> None:
        if self._control is not None:
            self._control.close()
        failures = {name: str(q.exception) for name, q in self._queries.items() if q.exception}
        changes = {name: change_values(q.last_change) for name, q in self._queries.items()}
        super()._ended(last_batches)
        self._history.close()
        self._claim.release(dict(last_batches), failures, changes)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        command, table = request.get("command"), request.get("table")
        if command == "status":
            return self.status()
        if command == "recent" and table:
            return {"recent": self[table].recent_progress}
        if command == "stop" and table:
            self._call_off(table)
            self[table].stop(deadline_s=self.settings.stop_deadline_s)
            return self[table].summary()
        if command == "restart" and table:
            if self.lost is not None:
                raise self.lost
            self._call_off(table)
            self[table].restart(deadline_s=self.settings.stop_deadline_s)
            return self[table].summary()
        if command == "stop":
            if request.get("drain"):
                self.drain_requested.set()
            self.stop_requested.set()
            return {"stopping": list(self._queries)}
        if command == "rows" and table:
            return self._rows(str(table), int(request.get("rows", 20)))
        if command in ("arrow", "select") and table:
            rows, timeout_s = int(request["rows"]), float(request["timeout_s"])
            question = str(request["question"]) if command == "select" else None
            return {"arrow": self._arrow(str(table), question, rows, timeout_s)}
        raise ValueError(f"unknown command {command!r}")

    def _asked(self, name: str) -> DataFrame:
        if name in self._graph.definitions.of(View):
            return self._frames.view(name)
        if self[name].spec.sink.system == "memory":
            return self._spark.table(name)
        return self._frames.stored(name)

    def _rows(self, table: str, rows: int) -> dict[str, Any]:
        """Rows of a table that lives in this process only."""
        frame = self._spark.table(self[table].name)
        found = frame.limit(rows).collect()
        return {"columns": frame.columns, "rows": [list(row) for row in found]}

    def _arrow(self, name: str, question: str | None, rows: int, timeout_s: float) -> str:
        """Rows of a table or view, or an answer over them, as an Arrow stream: types survive."""
        import pyarrow

        found = copied(
            self._spark,
            lambda: self._asked(name),
            name,
            self.settings,
            question=question,
            rows=rows,
            timeout_s=timeout_s,
        )
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, found.schema) as writer:
            writer.write_table(found)
        return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def _text_of(problem: Exception) -> str:
    """What a supervisor judges: a system that is out of reach has a code; others are only told."""
    code = getattr(problem, "code", "")
    kind = type(problem)
    name = f"{kind.__module__}.{kind.__qualname__}: " if code.endswith(UNREACHABLE) else ""
    return f"{name}{problem}"
