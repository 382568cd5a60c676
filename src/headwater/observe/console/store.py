"""What the console knows: pipelines found in project folders, each read from its history.

Reading costs a running pipeline nothing. Memory depends on the number of tables, not on time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headwater.observe.console.series import COLUMNS, Series
from headwater.observe.console.stories import story
from headwater.observe.doctor.cases import Recent
from headwater.observe.doctor.examination import cases_of
from headwater.observe.doctor.rules import Advice, advice
from headwater.runtime.about import read_about
from headwater.runtime.history import HistoryReader, Record, history_folder
from headwater.runtime.ownership import FoundRun, find_runs

_EVENTS = 2000
_TREND = 40
_TRENDS = ("input_rows_per_s", "watermark_lag_s")
_VERSIONS = 200
_NEWEST_BYTES = 12 * 1024 * 1024
_STATES = {
    "QueryStarted": "running",
    "QueryStopped": "stopped",
    "QueryFailed": "failed",
    "QueryRestarting": "restarting",
}


class Watched:
    """One pipeline, folded from its history whenever somebody looks."""

    def __init__(self, local_folder: Path, pipeline: str) -> None:
        self._folder = history_folder(local_folder, pipeline)
        self._reader = HistoryReader(self._folder, newest_bytes=_NEWEST_BYTES)
        self._lock = threading.Lock()
        self._series: dict[str, Series] = {}
        self._recent = Recent()
        # Apart: a failure stays in sight, however many batches come after it.
        self._batches: deque[Record] = deque(maxlen=_EVENTS)
        self._others: deque[Record] = deque(maxlen=_EVENTS)
        self._tables: dict[str, dict[str, Any]] = {}
        self._models: dict[str, deque[dict[str, Any]]] = {}
        self._number = 0
        self._advised: tuple[int, list[Advice]] = (-1, [])

    def read_on(self) -> int:
        """Takes in what is new; the number of the last event."""
        with self._lock:
            for record in self._reader.new():
                self._take(record)
            return self._number

    @property
    def about(self) -> Mapping[str, Any]:
        return read_about(self._folder) or {}

    def tables(self, *, has_crashed: bool) -> list[dict[str, Any]]:
        """State and figures of every table; what ran when the process died has crashed."""
        with self._lock:
            declared = [n["name"] for n in self.about.get("nodes", []) if n["kind"] == "table"]
            names = dict.fromkeys([*declared, *self._tables])
            found = [
                {**(self._tables.get(name) or _new_table(name)), **self._trend(name)}
                for name in names
            ]
        for table in found:
            if has_crashed and table["state"] in ("running", "restarting", "starting"):
                table["state"] = "crashed"
        return found

    def _trend(self, table: str) -> dict[str, Any]:
        columns = self._series.get(table, Series()).columns(_TREND, _TRENDS)
        lags = [lag for lag in columns["watermark_lag_s"] if lag is not None]
        return {
            "trend": columns["input_rows_per_s"],
            "watermark_lag_s": lags[-1] if lags else None,
        }

    def series(self, table: str, most: int) -> dict[str, list[float | None]]:
        with self._lock:
            return self._series.get(table, Series()).columns(most, COLUMNS)

    def events(self, *, limit: int, batches: bool, table: str | None) -> list[dict[str, Any]]:
        """The newest first."""
        with self._lock:
            known = [*self._others, *(self._batches if batches else ())]
        chosen = [r for r in known if table is None or _subject(r.facts) == table]
        chosen.sort(key=lambda record: record.number, reverse=True)
        return [_told(record) for record in chosen[:limit]]

    def models(self) -> list[dict[str, Any]]:
        """Every model with what became of its versions, newest first."""
        with self._lock:
            return [
                {"model": name, "versions": list(reversed(versions))}
                for name, versions in self._models.items()
            ]

    def advice(self) -> list[Advice]:
        number = self.read_on()
        with self._lock:
            if self._advised[0] != number:
                self._advised = (number, advice(cases_of(self._recent, self.about)))
            return self._advised[1]

    def _take(self, record: Record) -> None:
        if record.number <= self._number:
            # The history was removed and begun anew.
            self._batches.clear()
            self._others.clear()
        self._number = record.number
        self._recent.add(record)
        facts, name = record.facts, record.table
        if record.kind == "PipelineStarted":
            self._tables = {table: _new_table(table) for table in facts["tables"]}
        elif name is not None:
            table = self._tables.get(name) or self._tables.setdefault(name, _new_table(name))
            if record.kind == "BatchCompleted":
                self._series.setdefault(name, Series()).add(record)
                _count(table, facts)
            elif record.kind in _STATES:
                table |= {
                    "state": _STATES[record.kind],
                    "since": record.at,
                    "problem": facts.get("message") or facts.get("reason"),
                }
        if record.kind.startswith("Model") and "model" in facts:
            versions = self._models.setdefault(facts["model"], deque(maxlen=_VERSIONS))
            versions.append({"at": record.at, "kind": record.kind, **facts})
        (self._batches if record.kind == "BatchCompleted" else self._others).append(record)


def _told(record: Record) -> dict[str, Any]:
    return {
        "n": record.number,
        "at": record.at,
        "kind": record.kind,
        "table": _subject(record.facts),
        "text": story(record),
    }


def _subject(facts: Mapping[str, Any]) -> str | None:
    names = (facts.get(kind) for kind in ("table", "source", "lookup", "model"))
    return next((str(name) for name in names if name), None)


def _new_table(name: str) -> dict[str, Any]:
    return {
        "table": name,
        "state": "starting",
        "since": None,
        "problem": None,
        "batches": 0,
        "rows": 0,
        "late": 0,
        "rejected": 0,
        "last": None,
    }


def _count(table: dict[str, Any], facts: dict[str, Any]) -> None:
    table["batches"] += 1
    table["rows"] += facts["input_rows"]
    table["late"] += facts["late"]["late"] if facts.get("late") else 0
    table["rejected"] += sum(facts.get("rejected", {}).values())
    table["last"] = facts


class Store:
    """Pipelines of several project folders by an id that is fit for an address."""

    def __init__(self, local_folders: Sequence[Path]) -> None:
        self._folders = list(local_folders)
        self._watched: dict[str, Watched] = {}
        self._lock = threading.Lock()

    def runs(self) -> dict[str, tuple[Path, FoundRun]]:
        return {
            f"{number}-{run.record.pipeline}": (folder, run)
            for number, folder in enumerate(self._folders)
            for run in find_runs(folder)
        }

    def read_ahead(self) -> None:
        """Takes in the pipeline that started last, before somebody asks for it."""
        started = {key: run.record.started_at for key, (_, run) in self.runs().items()}
        if started:
            self.watched(max(started, key=lambda key: started[key])).read_on()

    def watched(self, key: str) -> Watched:
        """Raises KeyError for a pipeline that is not there."""
        folder, run = self.runs()[key]
        with self._lock:
            if key not in self._watched:
                self._watched[key] = Watched(folder, run.record.pipeline)
            return self._watched[key]
