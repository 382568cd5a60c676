"""The console over HTTP, on histories that the real writer wrote."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headwater.errors import AddressTaken
from headwater.events import (
    BatchCompleted,
    Event,
    LateCount,
    PipelineStarted,
    PipelineStopped,
    QueryFailed,
    QueryStarted,
    QueryStopped,
    RejectedCaptured,
)
from headwater.local.processes import wait_until
from headwater.observe import serving
from headwater.observe.console.server import Console, ConsoleProcess, ConsoleSettings
from headwater.observe.console.store import Store, Watched
from headwater.runtime.control import ControlServer
from headwater.runtime.history import HistoryWriter, history_folder
from headwater.runtime.ownership import Ownership

EVIL = "<script>alert(1)</script>"


def batch(number: int, rows: int = 10, **facts: Any) -> BatchCompleted:
    at = f"2026-01-01T12:{number // 60 % 60:02}:{number % 60:02}.000Z"
    late = LateCount(rows, late=1)
    return BatchCompleted("hot", number, at, rows, 10.0, 20.0, 500, late=late, **facts)


def write(folder: Path, *events: Event, pipeline: str = "app") -> None:
    writer = HistoryWriter(history_folder(folder, pipeline))
    writer.start()
    for event in events:
        writer.report(event)
    writer.close()


def about(folder: Path, pipeline: str = "app") -> dict[str, Any]:
    place = {"kind": "delta", "path": str(folder / pipeline / "tables" / "hot")}
    table = {"name": "hot", "kind": "table", "reads": ["signals"], "place": place}
    elsewhere = {"name": "far", "kind": "table", "reads": [], "place": {"kind": "spark"}}
    source = {"name": "signals", "kind": "source", "reads": [], "watermark": None}
    nowhere = {"name": "gone", "kind": "table", "reads": [], "place": {"kind": "none"}}
    view = {"name": "warm", "kind": "view", "reads": ["signals"]}
    nodes = [source, table, elsewhere, nowhere, view]
    return {"pipeline": pipeline, "storage": str(folder), "cores": 2, "nodes": nodes}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pipeline that ran and ended."""
    found = tmp_path / ".headwater"
    ownership = Ownership(found, "app")
    ownership.take()
    ownership.publish(port=1, app="app.py", tables=("hot",))
    write(
        found,
        PipelineStarted("app", ("hot",)),
        QueryStarted("hot", "id", "run", None),
        *(batch(number) for number in range(5)),
        RejectedCaptured("signals", "hot", 4, 3),
    )
    (history_folder(found, "app") / "about.json").write_text(json.dumps(about(found)))
    write_deltalake(str(found / "app" / "tables" / "hot"), pa.table({"device": ["a", EVIL, "a"]}))
    ownership.release({"hot": 4}, {})
    return found


@pytest.fixture
def console(folder: Path) -> Iterator[Console]:
    found = Console(ConsoleSettings((folder,)))
    found.start()
    yield found
    found.close()


def ask(
    console: Console,
    path: str,
    body: dict[str, Any] | bytes | None = None,
    *,
    method: str | None = None,
    **headers: str | None,
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", console.server.port, timeout=30)
    given: dict[str, str | None] = {"Authorization": f"Bearer {console.token}", **headers}
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection.request(
        method or ("GET" if body is None else "POST"),
        path,
        sent,
        {name: value for name, value in given.items() if value is not None},
    )
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    is_json = answer.headers["Content-Type"] == "application/json"
    return answer.status, json.loads(content) if is_json else content


def test_pipelines_are_listed_with_their_state(console: Console) -> None:
    status, found = ask(console, "/api/pipelines")
    assert status == 200
    [one] = found["pipelines"]
    assert (one["id"], one["state"], one["tables"]) == ("0-app", "stopped", ["hot"])


def test_the_overview_adds_up_what_the_history_holds(console: Console) -> None:
    _, found = ask(console, "/api/p/0-app")
    hot = next(table for table in found["tables"] if table["table"] == "hot")
    assert (hot["batches"], hot["rows"], hot["late"]) == (5, 50, 5)
    assert hot["last"]["batch"] == 4
    assert hot["trend"] == [10.0] * 5
    _, same = ask(console, f"/api/p/0-app?version={found['version']}")
    assert same["is_unchanged"]
    assert [node["name"] for node in found["about"]["nodes"]] == [
        "signals",
        "hot",
        "far",
        "gone",
        "warm",
    ]


def test_what_is_new_is_seen_and_what_is_not_costs_little(console: Console, folder: Path) -> None:
    _, first = ask(console, "/api/p/0-app/series?table=hot")
    assert first["columns"]["input_rows"] == [10] * 5
    _, same = ask(console, f"/api/p/0-app/series?table=hot&n={first['n']}")
    assert same == {"n": first["n"], "is_unchanged": True}
    write(folder, batch(5, rows=70))
    _, after = ask(console, f"/api/p/0-app/series?table=hot&n={first['n']}")
    assert after["columns"]["input_rows"][-1] == 70


def test_events_are_told_in_words_newest_first(console: Console) -> None:
    _, found = ask(console, "/api/p/0-app/events")
    assert [event["kind"] for event in found["events"]] == [
        "RejectedCaptured",
        "QueryStarted",
        "PipelineStarted",
    ]
    assert found["events"][0]["text"] == "signals: 3 rejected, see signals__rejected"
    _, every = ask(console, "/api/p/0-app/events?batches=1&table=hot")
    assert len(every["events"]) == 7


def test_a_failure_stays_in_sight_however_many_batches_follow(folder: Path) -> None:
    write(folder, QueryFailed("far", 3, "the shop is closed"))
    write(folder, *(batch(number) for number in range(5, 2_600)))
    watched = Watched(folder, "app")
    watched.read_on()
    kinds = [event["kind"] for event in watched.events(limit=100, batches=False, table="far")]
    assert kinds == ["QueryFailed"]
    assert len(watched.events(limit=5_000, batches=True, table="hot")) >= 2_000


def test_models_are_shown_with_what_became_of_their_versions(
    console: Console, folder: Path
) -> None:
    [file] = history_folder(folder, "app").glob("*.jsonl")
    told = [
        (
            "ModelTrained",
            {"model": "usual", "version": 2, "rows": 90, "seconds": 1.5, "score": 0.9},
        ),
        ("ModelPublished", {"model": "usual", "version": 2, "previous": 1, "score": 0.9}),
        ("ModelRefused", {"model": "usual", "version": 3, "running": 2, "reason": "worse"}),
    ]
    with open(file, "a") as history:
        for n, (kind, facts) in enumerate(told, 100):
            at = "2026-01-01T12:00:00+00:00"
            record = {"n": n, "at": at, "kind": kind, "facts": {"model": "usual", **facts}}
            history.write(json.dumps(record) + "\n")
    _, found = ask(console, "/api/p/0-app")
    [model] = found["models"]
    assert [one["kind"] for one in model["versions"]] == [kind for kind, _ in reversed(told)]
    _, events = ask(console, "/api/p/0-app/events?table=usual")
    assert [event["text"] for event in events["events"]] == [
        "usual: version 3 refused, version 2 stays: worse",
        "usual: version 2 is used from now on, score 0.9",
        "usual: version 2 trained on 90 rows in 1.5 s, score 0.9",
    ]


def test_rows_and_questions_are_answered(console: Console) -> None:
    _, rows = ask(console, "/api/p/0-app/rows?table=hot")
    assert (rows["columns"], rows["total"]) == (["device"], 3)
    question = "SELECT device, count(*) AS n FROM hot GROUP BY device ORDER BY n DESC"
    status, found = ask(console, "/api/p/0-app/sql", {"query": question})
    assert status == 200
    assert found["rows"] == [["a", 2], [EVIL, 1]]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("DROP TABLE hot", "SQL_REFUSED"),
        ("", "SQL_REFUSED"),
        ("SELECT nosuch FROM hot", "SQL_FAILED"),
        ("SELECT * FROM cold", "UNKNOWN_TABLE"),
        ("SELECT * FROM far", "NOT_RUNNING"),
        ("SELECT * FROM warm", "NOT_RUNNING"),
        ("SELECT * FROM gone", "ROWS_NOT_KEPT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "SQL_FAILED"),
    ],
)
def test_a_bad_question_gets_a_clear_answer(console: Console, query: str, code: str) -> None:
    status, found = ask(console, "/api/p/0-app/sql", {"query": query})
    assert (status, found["code"]) == (400, code)


@pytest.fixture
def answers(folder: Path) -> Iterator[dict[str, dict[str, Any]]]:
    """A pipeline that runs, and what it answers about each table."""
    found: dict[str, dict[str, Any]] = {}
    ownership = Ownership(folder, "app")
    ownership.take()
    control = ControlServer(ownership.record.token, lambda request: found[request["table"]])
    control.start()
    ownership.publish(port=control.port, app="app.py", tables=("hot", "far"))
    yield found
    control.close()
    ownership.release({}, {})


def test_what_takes_spark_is_read_by_the_running_pipeline(
    console: Console, answers: dict[str, dict[str, Any]]
) -> None:
    rows = pa.table({"device": ["a", "b"], "n": [1, 2]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    arrow = base64.b64encode(sink.getvalue().to_pybytes()).decode()
    answers |= {"far": {"arrow": arrow}, "warm": {"arrow": arrow}}
    # Two tables are copied, and joined here.
    query = "SELECT max(far.n + warm.n) AS n FROM far JOIN warm USING (device)"
    _, found = ask(console, "/api/p/0-app/sql", {"query": query})
    assert found["rows"] == [[4]]
    _, shown = ask(console, "/api/p/0-app/rows?table=far")
    assert shown["rows"] == [["a", 1], ["b", 2]]


@pytest.mark.parametrize(
    ("said", "code", "shown"),
    [
        ({"error": "SQL_TIMEOUT: …", "code": "SQL_TIMEOUT"}, "SQL_TIMEOUT", "20 s"),
        ({"error": "a\n  found b", "code": "NOT_READABLE"}, "ROWS_UNREADABLE", "a found b"),
        ({"error": "unknown", "code": "BAD_REQUEST"}, "PIPELINE_UNREACHABLE", "unknown"),
    ],
)
def test_why_the_running_pipeline_cannot_read_it_is_told(
    console: Console,
    answers: dict[str, dict[str, Any]],
    said: dict[str, Any],
    code: str,
    shown: str,
) -> None:
    answers["far"] = said
    _, found = ask(console, "/api/p/0-app/sql", {"query": "SELECT * FROM far"})
    assert found["code"] == code
    assert shown in found["error"]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/pipelines", {"Authorization": None}, 401),
        ("/api/pipelines", {"Authorization": "Bearer wrong"}, 401),
        ("/api/pipelines", {"Host": "evil.example"}, 403),
        ("/api/pipelines", {"Host": "127.0.0.1"}, 403),
        ("/api/pipelines", {"Origin": "http://evil.example"}, 403),
        ("/", {"Host": "evil.example"}, 403),
        ("/api/p/9-nobody", {}, 404),
        ("/api/p/0-app/nothing", {}, 404),
        ("/api/p/0-app/rows", {}, 400),
        ("/api/p/0-app/series?table=hot&points=x", {}, 400),
        ("/static/../server.py", {}, 404),
        ("/../server.py", {}, 404),
        ("/%2e%2e/server.py", {}, 404),
    ],
)
def test_what_does_not_belong_here_is_refused(
    console: Console, path: str, headers: dict[str, str | None], status: int
) -> None:
    assert ask(console, path, **headers)[0] == status


@pytest.mark.parametrize("headers", [{"Authorization": None}, {"Origin": "http://evil.example"}])
def test_actions_need_the_token_and_the_own_page(
    console: Console, headers: dict[str, str | None]
) -> None:
    status, _ = ask(console, "/api/p/0-app/stop", {"table": "hot"}, **headers)
    assert status in (401, 403)


def test_an_action_on_a_pipeline_that_has_ended_says_so(console: Console) -> None:
    status, found = ask(console, "/api/p/0-app/stop", {"table": "hot"})
    assert (status, found["error"]) == (409, "pipeline 'app' does not run")
    assert ask(console, "/api/p/0-app/restart", {})[0] == 400


@pytest.mark.parametrize("body", [b"{broken", b"[1]", b"\xff\xfe"])
def test_a_body_that_is_no_object_is_refused(console: Console, body: bytes) -> None:
    assert ask(console, "/api/p/0-app/sql", body, method="POST")[0] == 400


def test_a_body_that_is_too_large_is_not_read(console: Console) -> None:
    assert ask(console, "/api/p/0-app/sql", b"x" * 70_000, method="POST")[0] == 413


def connected(console: Console, sent: str) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", console.server.port), timeout=30)
    found.sendall(sent.format(port=console.server.port).encode())
    return found


REQUEST = "GET /pages.js HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
HALF = "POST /api/p/0-app/sql HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 9\r\n\r\n{{"


def stalled(console: Console) -> socket.socket:
    """Asks without end and reads nothing, until the server takes no more of it."""
    found = connected(console, REQUEST)
    found.settimeout(0.5)
    # So many answers would be 20 GB, were they kept for it.
    asked = REQUEST.format(port=console.server.port).encode() * 1_000_000
    with pytest.raises(TimeoutError):
        found.sendall(asked)
    return found


def test_clients_that_stall_hold_up_nobody_else(console: Console) -> None:
    idle = threading.active_count()
    clients = [stalled(console) for _ in range(2)] + [connected(console, HALF) for _ in range(40)]
    assert ask(console, "/api/pipelines")[0] == 200
    clients += [connected(console, HALF) for _ in range(60)]
    clients[-1].settimeout(10)
    # Beyond the limit, so it is cut off at once.
    with contextlib.suppress(ConnectionResetError):
        assert clients[-1].recv(1) == b""
    assert threading.active_count() <= idle + serving._CONNECTIONS
    for client in clients:
        client.close()
    assert wait_until(lambda: threading.active_count() <= idle, timeout_s=30)


def test_a_client_that_stalls_is_cut_off(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving._Handler, "timeout", 0.5)
    idle = threading.active_count()
    with stalled(console), connected(console, HALF):
        assert wait_until(lambda: threading.active_count() <= idle, timeout_s=10)


def test_the_page_may_load_nothing_from_elsewhere(console: Console) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", console.server.port, timeout=5)
    connection.request("GET", "/")
    answer = connection.getresponse()
    policy = answer.headers["Content-Security-Policy"]
    page = answer.read().decode()
    connection.close()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in page.replace('http-equiv="', "")
    assert console.token not in page


def test_read_only_means_that_nothing_can_be_stopped(folder: Path) -> None:
    found = Console(ConsoleSettings((folder,), is_read_only=True))
    found.start()
    assert ask(found, "/api/p/0-app/stop", {"table": "hot"})[0] == 403
    assert ask(found, "/api/p/0-app/restart", {"table": "hot"})[0] == 403
    assert ask(found, "/api/p/0-app/sql", {"query": "SELECT count(*) FROM hot"})[0] == 200
    found.close()


def test_two_consoles_show_the_same(console: Console, folder: Path) -> None:
    second = Console(ConsoleSettings((folder,)))
    second.start()
    assert ask(console, "/api/p/0-app") == ask(second, "/api/p/0-app")
    assert ask(second, "/api/pipelines", Authorization=f"Bearer {console.token}")[0] == 401
    second.close()


def test_a_port_that_is_taken_is_told(console: Console, folder: Path) -> None:
    with pytest.raises(AddressTaken):
        Console(ConsoleSettings((folder,), port=console.server.port))
    with pytest.raises(AddressTaken):
        ConsoleProcess([folder], port=console.server.port, is_read_only=True)


def test_a_history_cut_short_is_shown_up_to_the_cut(folder: Path) -> None:
    [file] = history_folder(folder, "app").glob("*.jsonl")
    file.write_bytes(file.read_bytes()[:-400])
    (history_folder(folder, "app") / "about.json").write_text('{"nodes": [')
    watched = Store([folder]).watched("0-app")
    assert watched.read_on() == 6
    assert [table["batches"] for table in watched.tables(has_crashed=False)] == [4]


def test_a_process_that_died_leaves_crashed_tables(folder: Path) -> None:
    watched = Store([folder]).watched("0-app")
    watched.read_on()
    states = {t["table"]: t["state"] for t in watched.tables(has_crashed=True)}
    assert states["hot"] == "crashed"
    write(folder, QueryFailed("hot", 4, "app.py:3: FUNCTION_FAILED: no"))
    watched.read_on()
    hot = watched.tables(has_crashed=True)[0]
    assert (hot["state"], hot["problem"]) == ("failed", "app.py:3: FUNCTION_FAILED: no")


def test_pipelines_of_several_folders_are_in_one_place(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / ".headwater"
    ownership = Ownership(other, "app")
    ownership.take()
    ownership.publish(port=1, app=None, tables=("hot",))
    write(
        other, PipelineStarted("app", ("hot",)), QueryStopped("hot", 3), PipelineStopped("app", {})
    )
    store = Store([folder, other])
    assert sorted(store.runs()) == ["0-app", "1-app"]
    assert store.runs()["1-app"][1].is_alive
    ownership.release({}, {})


def test_the_pipeline_that_started_last_is_read_before_anybody_asks(folder: Path) -> None:
    store = Store([folder])
    store.read_ahead()
    assert store.watched("0-app").tables(has_crashed=False)[0]["batches"] == 5


def test_memory_stays_flat_over_ten_thousand_batches(folder: Path) -> None:
    """Ten thousand batches are kept as two thousand points; the sums of a chart stay true."""
    write(folder, *(batch(number, rows=1) for number in range(5, 10_000)))
    watched = Store([folder]).watched("0-app")
    watched.read_on()
    columns = watched.series("hot", 300)
    assert len(columns["at"]) <= 300
    assert sum(value or 0 for value in columns["input_rows"]) == 2000
    assert len(watched.events(limit=10_000, batches=True, table=None)) == 2000 + 3


def test_a_console_of_its_own_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from headwater.observe.console.server import ConsoleProcess\n"
        "if __name__ == '__main__':\n"
        "    found = ConsoleProcess([Path('.')], port=0, is_read_only=True)\n"
        "    print(found._process.pid, found.address, flush=True); time.sleep(60)\n"
    )
    script = tmp_path / "start.py"
    script.write_text(code)
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, address = parent.stdout.readline().split()
    assert "#token=" in address
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert wait_until(lambda: not _is_running(int(pid)), timeout_s=30)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
