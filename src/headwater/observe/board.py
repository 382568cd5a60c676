"""What is known of every table, folded from events."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headwater.events import (
    BatchCompleted,
    Event,
    PipelineStarted,
    QueryFailed,
    QueryRestarting,
    QueryStarted,
    QueryStopped,
    RejectedCaptured,
)


@dataclass(frozen=True, slots=True)
class TableFigures:
    """One table as the terminal shows it; sums count since this run began."""

    table: str
    state: str = "starting"
    last: BatchCompleted | None = None
    last_batch: int | None = None
    batches: int = 0
    rows: int = 0
    late: int = 0
    rejected: int = 0

    def after(self, event: Event) -> TableFigures:
        """The figures once `event` has happened."""
        match event:
            case QueryStarted(resumed_after=batch):
                return replace(self, state="running", last_batch=batch)
            case BatchCompleted():
                return replace(
                    self,
                    last=event,
                    last_batch=event.batch,
                    batches=self.batches + 1,
                    rows=self.rows + event.input_rows,
                    late=self.late + (event.late.late if event.late else 0),
                    rejected=self.rejected + sum(event.rejected.values()),
                )
            case QueryStopped(last_batch=batch, was_forced=was_forced):
                return replace(self, state="forced" if was_forced else "stopped", last_batch=batch)
            case QueryFailed(last_batch=batch):
                return replace(self, state="failed", last_batch=batch)
            case QueryRestarting(last_batch=batch):
                return replace(self, state="restarting", last_batch=batch)
        return self


@dataclass
class Board:
    """Takes events from any thread; `figures` is a consistent copy for whoever draws."""

    _figures: dict[str, TableFigures] = field(default_factory=dict)
    _captured: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, event: Event) -> None:
        with self._lock:
            match event:
                case PipelineStarted(tables=tables):
                    self._figures = {table: TableFigures(table) for table in tables}
                case RejectedCaptured(source=source, rows=rows):
                    self._captured[source] = self._captured.get(source, 0) + rows
                case (
                    QueryStarted(table=table)
                    | BatchCompleted(table=table)
                    | QueryStopped(table=table)
                    | QueryFailed(table=table)
                    | QueryRestarting(table=table)
                ):
                    known = self._figures.get(table, TableFigures(table))
                    self._figures[table] = known.after(event)

    @property
    def figures(self) -> list[TableFigures]:
        with self._lock:
            return list(self._figures.values())

    @property
    def captured(self) -> Mapping[str, int]:
        """Records stored in `<source>__rejected`, by source."""
        with self._lock:
            return dict(self._captured)
