"""The console in a real browser, on a pipeline of 20 tables with 10,000 batches of history: how
long the first page takes of a console and a browser that were just started, and the same page
again, how soon a commit is seen, and what the console's process gains in memory while as many
batches come again, once its charts are full. Nothing else runs beside it."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.figures import Figure, figure
from headwater.events import BatchCompleted, LateCount, PipelineStarted, QueryStarted
from headwater.observe.console.server import ConsoleProcess
from headwater.runtime.history import HistoryWriter, history_folder
from headwater.runtime.ownership import Ownership
from tests.e2e.chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

_TABLES = [f"table_{number:02}" for number in range(20)]
_BATCHES = 500
_FULL = 3000
"""More than a chart draws."""
_WAIT_MS = 60_000


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    with tempfile.TemporaryDirectory() as name, _running(Path(name) / ".headwater") as folder:
        _write(folder, range(_BATCHES))
        first = [_cold_page(folder) for _ in range(pairs)]
        console = ConsoleProcess([folder], port=0, is_read_only=False)
        try:
            with _browser() as page:
                _page(page, console.address)
                again = [_page(page, console.address) for _ in range(pairs)]
                seen = [_seen_after(page, folder, _BATCHES + n) for n in range(pairs)]
                before = _memory_after(page, console, folder, range(1000, _FULL))
                after = _memory_after(page, console, folder, range(_FULL, _FULL + _BATCHES))
        finally:
            console.close()
    figures = [
        figure("console, first page", first, 1, at_least=False, unit=" s"),
        figure("console, the page again", again, 1, at_least=False, unit=" s"),
        figure("console, commit to page", seen, 1, at_least=False, unit=" s"),
        figure("console, memory after as many again", [after / before], 1.1, at_least=False),
    ]
    details = {"first_s": first, "again_s": again, "seen_s": seen, "memory_mb": [before, after]}
    return figures, details


@contextmanager
def _running(folder: Path) -> Iterator[Path]:
    """What a running pipeline leaves there, without one."""
    ownership = Ownership(folder, "fleet")
    ownership.take()
    ownership.publish(port=1, app="app.py", tables=tuple(_TABLES))
    about = history_folder(folder, "fleet") / "about.json"
    about.parent.mkdir(parents=True, exist_ok=True)
    source = {"name": "signals", "kind": "source", "reads": [], "watermark": "10 seconds"}
    tables = [
        {"name": one, "kind": "table", "reads": ["signals"], "place": {"kind": "none"}}
        for one in _TABLES
    ]
    nodes = [source, *tables]
    content = {"pipeline": "fleet", "storage": str(folder), "cores": 2, "nodes": nodes}
    about.write_text(json.dumps(content))
    writer = HistoryWriter(history_folder(folder, "fleet"))
    writer.start()
    writer.report(PipelineStarted("fleet", tuple(_TABLES)))
    for table in _TABLES:
        writer.report(QueryStarted(table, table, table, None))
    writer.close()
    try:
        yield folder
    finally:
        ownership.release({}, {})


def _write(folder: Path, batches: range) -> None:
    writer = HistoryWriter(history_folder(folder, "fleet"))
    writer.start()
    for batch in batches:
        for table in _TABLES:
            writer.report(_batch(table, batch))
    writer.close()
    assert writer.dropped == 0


def _batch(table: str, number: int) -> BatchCompleted:
    at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    phases = {"addBatch": 300, "queryPlanning": 40, "walCommit": 20, "commitOffsets": 20}
    return BatchCompleted(
        table,
        number,
        at,
        5000,
        4900.0,
        12_000.0,
        400,
        watermark=at,
        state_rows=20_000,
        late=LateCount(5000, late=3),
        rejected={"signals": 2},
        kafka_lag=number % 7,
        durations_ms=phases,
        output_rows=4900,
        source_rows={"KafkaV2[Subscribe[signals]]": 5000},
        kafka_lags={f"signals:{partition}": number % 7 for partition in range(2)},
        state_bytes=9_000_000,
        state_partitions=2,
        state_commit_ms=15,
        latency_p50_ms=900,
        latency_p99_ms=2100,
        latency_rows={500 + 100 * n: 200 for n in range(25)},
        latency_max_ms=4000,
    )


@contextmanager
def _browser() -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = chromium(playwright.chromium.executable_path)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        # A browser that was just started reads its own files first.
        page.goto("about:blank")
        yield page
        browser.close()


def _cold_page(folder: Path) -> float:
    """From the address of a new console, which has read nothing yet, to its page."""
    with _browser() as page:
        console = ConsoleProcess([folder], port=0, is_read_only=False)
        try:
            return _page(page, console.address)
        finally:
            console.close()


def _page(page: Page, address: str) -> float:
    page.goto("about:blank")
    began = time.perf_counter()
    page.goto(address)
    page.locator("th[scope=row]").nth(len(_TABLES) - 1).wait_for(timeout=_WAIT_MS)
    return time.perf_counter() - began


def _seen_after(page: Page, folder: Path, batch: int) -> float:
    """From the report of a batch's commit until the page of its table shows it."""
    page.evaluate(f"location.hash = '#/0-fleet/table/{_TABLES[0]}'")
    page.locator("main svg").first.wait_for(timeout=_WAIT_MS)
    began = time.perf_counter()
    writer = HistoryWriter(history_folder(folder, "fleet"))
    writer.start()
    writer.report(_batch(_TABLES[0], batch))
    writer.close()
    page.get_by_text(f"batch {batch:,} ").wait_for(timeout=_WAIT_MS)
    return time.perf_counter() - began


def _memory_after(page: Page, console: ConsoleProcess, folder: Path, batches: range) -> float:
    for start in range(batches.start, batches.stop, 50):
        _write(folder, range(start, start + 50))
        # The page reads on meanwhile, as it does beside a pipeline.
        page.wait_for_timeout(300)
    _seen_after(page, folder, batches.stop)
    return _memory_mb(console)


def _memory_mb(console: ConsoleProcess) -> float:
    status = Path(f"/proc/{console.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024
