"""A pipeline while it runs: its queries, who may talk to it, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from headwater.events import Report
from headwater.graph import Graph
from headwater.runtime.control import ControlServer
from headwater.runtime.ownership import Ownership
from headwater.runtime.queries import RunningQueries
from headwater.runtime.specification import QuerySpec
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    ) -> None:
        super().__init__(spark, graph, specs, settings, report, upstream=upstream)
        self._app = app
        self._ownership = Ownership(settings.local_folder, self.name)
        self._control: ControlServer | None = None

    def start(self) -> Self:
        self._ownership.take()
        super().start()
        try:
            self._control = ControlServer(self._ownership.record.token, self._answer)
            self._control.start()
            self._ownership.publish(
                port=self._control.port, app=self._app, tables=tuple(self._queries)
            )
        except BaseException:
            self.stop()
            raise
        return self

    def _ended(self, last_batches: Mapping[str, int | None]) -> None:
        if self._control is not None:
            self._control.close()
        failures = {name: str(q.exception) for name, q in self._queries.items() if q.exception}
        self._ownership.release(dict(last_batches), failures)
        super()._ended(last_batches)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        command, table = request.get("command"), request.get("table")
        if command == "status":
            return self.status()
        if command == "recent" and table:
            return {"recent": self[table].recent_progress}
        if command == "stop" and table:
            self[table].stop(deadline_s=self.settings.stop_deadline_s)
            return self[table].summary()
        if command == "restart" and table:
            self[table].restart(deadline_s=self.settings.stop_deadline_s)
            return self[table].summary()
        if command == "stop":
            self.stop_requested.set()
            return {"stopping": list(self._queries)}
        if command == "rows" and table:
            return self._rows(str(table), int(request.get("rows", 20)))
        raise ValueError(f"unknown command {command!r}")

    def _rows(self, table: str, rows: int) -> dict[str, Any]:
        """Rows of a table that lives in this process only."""
        frame = self._spark.table(self[table].name)
        found = frame.limit(rows).collect()
        return {"columns": frame.columns, "rows": [list(row) for row in found]}
