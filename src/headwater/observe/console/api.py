"""What the page asks for, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwater import __version__
from headwater.errors import (
    HeadwaterError,
    NotRunning,
    RowsNotKept,
    SqlRefused,
    UnknownTable,
)
from headwater.observe.answers import plain
from headwater.observe.console.store import Store, Watched
from headwater.observe.datasets import data_at, data_of_process
from headwater.observe.live_sql import answer
from headwater.observe.rows import Rows
from headwater.observe.serving import Request, Response, json_response, problem
from headwater.observe.tables import rows_at
from headwater.runtime import control
from headwater.runtime.ownership import FoundRun, RunRecord
from headwater.runtime.storage import Storage

_POINTS = 300
_EVENTS = 300
_ROWS = 100
_SQL_ROWS = 500
_SQL_TIMEOUT_S = 20.0
_ON_DISK = ("delta", "files")


class Api:
    """Answers paths below /api; whoever calls it has shown the token.

    With `is_read_only` nothing can be stopped or restarted.
    """

    def __init__(self, store: Store, *, is_read_only: bool = False) -> None:
        self._store = store
        self._is_read_only = is_read_only

    def answer(self, request: Request) -> Response:
        parts = request.path.strip("/").split("/")[1:]
        if parts == ["pipelines"]:
            return json_response(self._pipelines())
        if len(parts) not in (2, 3) or parts[0] != "p":
            return problem(404, "no such address")
        runs = self._store.runs()
        if parts[1] not in runs:
            return problem(404, f"there is no pipeline {parts[1]!r}")
        route = parts[2] if len(parts) == 3 else "overview"
        handler = self._routes().get((request.method, route))
        if handler is None:
            return problem(404, "no such address")
        try:
            folder, run = runs[parts[1]]
            return handler(_Asked(request, folder, run, self._store.watched(parts[1])))
        except HeadwaterError as raised:
            return json_response({"error": str(raised), "code": raised.code}, 400)
        except (ValueError, KeyError) as raised:
            return problem(400, f"the request is not understood: {raised}")

    def _routes(self) -> dict[tuple[str, str], Callable[[_Asked], Response]]:
        return {
            ("GET", "overview"): self._overview,
            ("GET", "series"): self._series,
            ("GET", "events"): self._events,
            ("GET", "rows"): self._rows,
            ("GET", "doctor"): self._doctor,
            ("POST", "sql"): self._sql,
            ("POST", "stop"): self._stop,
            ("POST", "restart"): self._restart,
        }

    def _pipelines(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "is_read_only": self._is_read_only,
            "pipelines": [
                {
                    "id": key,
                    "pipeline": run.record.pipeline,
                    "app": run.record.app,
                    "folder": str(folder.parent),
                    "state": state_of(run),
                    "pid": run.record.pid,
                    "started_at": run.record.started_at,
                    "ended_at": run.record.ended_at,
                    "tables": list(run.record.tables),
                }
                for key, (folder, run) in self._store.runs().items()
            ],
        }

    def _overview(self, asked: _Asked) -> Response:
        version = f"{asked.watched.read_on()}-{state_of(asked.run)}"
        if asked.request.query.get("version") == version:
            return json_response({"version": version, "is_unchanged": True})
        record, about = asked.run.record, asked.watched.about
        return json_response(
            {
                "version": version,
                "n": int(version.split("-")[0]),
                "state": state_of(asked.run),
                "started_at": record.started_at,
                "ended_at": record.ended_at,
                "about": dict(about),
                "tables": asked.watched.tables(has_crashed=asked.run.has_crashed),
                "sides": _side_tables(about),
                "models": asked.watched.models(),
            }
        )

    def _series(self, asked: _Asked) -> Response:
        number = asked.watched.read_on()
        if asked.request.query.get("n") == str(number):
            return json_response({"n": number, "is_unchanged": True})
        points = min(_POINTS, max(1, int(asked.request.query.get("points", _POINTS))))
        return json_response({"n": number, "columns": asked.watched.series(asked.table(), points)})

    def _events(self, asked: _Asked) -> Response:
        number = asked.watched.read_on()
        query = asked.request.query
        if query.get("n") == str(number):
            return json_response({"n": number, "is_unchanged": True})
        events = asked.watched.events(
            limit=_EVENTS, batches=query.get("batches") == "1", table=query.get("table") or None
        )
        return json_response({"n": number, "events": events})

    def _rows(self, asked: _Asked) -> Response:
        name = asked.table()
        found = _rows_of(asked, name)
        if found is None:
            return json_response({"columns": [], "rows": [], "total": 0})
        rows = [[plain(value) for value in row] for row in found.rows]
        return json_response({"columns": found.columns, "rows": rows, "total": found.total})

    def _doctor(self, asked: _Asked) -> Response:
        said = [asdict(one) for one in asked.watched.advice()]
        return json_response({"advice": said})

    def _sql(self, asked: _Asked) -> Response:
        text = asked.body().get("query")
        if not isinstance(text, str) or not text.strip():
            raise SqlRefused("an empty question")
        places = _places(asked.watched.about)
        found = answer(
            text,
            lambda name: _data_of(asked, places, name),
            places,
            rows=_SQL_ROWS,
            timeout_s=_SQL_TIMEOUT_S,
        )
        rows = [[plain(value) for value in row] for row in found.rows]
        return json_response(
            {
                "columns": found.columns,
                "rows": rows,
                "is_cut": found.is_cut,
                "seconds": found.seconds,
            }
        )

    def _stop(self, asked: _Asked) -> Response:
        return self._act(asked, "stop", asked.body().get("table"))

    def _restart(self, asked: _Asked) -> Response:
        table = asked.body().get("table")
        if not table:
            return problem(400, "a restart names a table")
        return self._act(asked, "restart", table)

    def _act(self, asked: _Asked, command: str, table: object) -> Response:
        if self._is_read_only:
            return problem(403, "this console only shows; it was started with --read-only")
        if state_of(asked.run) != "running":
            return problem(409, f"pipeline {asked.run.record.pipeline!r} does not run")
        arguments = {"table": str(table)} if table else {}
        done = control.ask(asked.run.record, command, **arguments)
        return json_response(done, 409 if "error" in done else 200)


class _Asked:
    """One request about one pipeline."""

    def __init__(self, request: Request, folder: Path, run: FoundRun, watched: Watched) -> None:
        self.request = request
        self.folder = folder
        self.run = run
        self.watched = watched

    def table(self) -> str:
        return self.request.query["table"]

    def body(self) -> dict[str, Any]:
        found = json.loads(self.request.body or b"{}")
        if not isinstance(found, dict):
            raise ValueError("expected an object")
        return found


def state_of(run: FoundRun) -> str:
    if run.has_crashed:
        return "crashed"
    if not run.is_alive:
        return "stopped"
    return "starting" if run.record.ended_at is not None else "running"


def _side_tables(about: Mapping[str, Any]) -> list[str]:
    """Late, rejected and gap tables that hold something."""
    storage = Storage(str(about.get("storage", "")), str(about.get("pipeline", "")))
    folder = Path(storage.table("x")).parent
    if not storage.root or not storage.is_local or not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if "__" in entry.name)


def _places(about: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    storage = Storage(str(about.get("storage", "")), str(about.get("pipeline", "")))
    nodes = about.get("nodes", [])
    places: dict[str, Mapping[str, Any]] = {
        n["name"]: {**n["place"], "sink": n.get("detail")} for n in nodes if n["kind"] == "table"
    }
    places |= {n["name"]: {"kind": "view"} for n in nodes if n["kind"] == "view"}
    sides = {name: {"kind": "delta", "path": storage.table(name)} for name in _side_tables(about)}
    return {**places, **sides}


def _data_of(asked: _Asked, places: Mapping[str, Mapping[str, Any]], name: str) -> Any:
    place = _place(places, name)
    if place["kind"] in _ON_DISK:
        return data_at(place, name)
    return data_of_process(_record(asked, name), name, timeout_s=_SQL_TIMEOUT_S)


def _rows_of(asked: _Asked, name: str) -> Rows | None:
    place = _place(_places(asked.watched.about), name)
    if place["kind"] in _ON_DISK:
        return rows_at(place, _ROWS)
    record = _record(asked, name)
    found = data_of_process(record, name, timeout_s=_SQL_TIMEOUT_S, rows=_ROWS)
    rows = tuple(tuple(row.values()) for row in found.to_pylist())
    return Rows(tuple(found.column_names), rows, None)


def _record(asked: _Asked, name: str) -> RunRecord:
    if state_of(asked.run) != "running":
        raise NotRunning(f"the rows of {name!r} are read by the pipeline, which does not run")
    return asked.run.record


def _place(places: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    if name not in places:
        raise UnknownTable(name, places)
    if places[name]["kind"] == "none":
        raise RowsNotKept(name, str(places[name].get("sink") or "its sink"))
    return places[name]
