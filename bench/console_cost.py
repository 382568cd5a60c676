"""What an open console takes from the pipeline beside it: the same rows with a console that is
asked as its page asks, twice a second, and without one. All in one session."""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.figures import Figure, alternate, figure
from bench.overhead import ROWS, write_input
from headwater import Pipeline
from headwater.connectors import json as json_files
from headwater.observe.console.server import ConsoleProcess
from headwater.runtime.session import open_session
from headwater.settings import Settings

_EVERY_S = 0.5
_WARM_UPS = 4
_APP = "cost"


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_input(folder / "in")
        spark = open_session(Settings(folder), [])
        try:
            for number in range(_WARM_UPS):
                _seconds(folder, f"warm_{number}")
            results = alternate(
                lambda: _watched(folder, f"watched_{time.time_ns()}"),
                lambda: _seconds(folder, f"alone_{time.time_ns()}"),
                pairs,
            )
        finally:
            spark.stop()
    ratios = [alone["seconds"] / watched["seconds"] for watched, alone in results]
    shares = [watched["console_cpu_s"] / watched["cpu_s"] for watched, _ in results]
    figures = [
        figure("throughput beside a console, ratio", ratios, 0.98, at_least=True),
        figure("console, share of the processor's work", shares, 0.02, at_least=False),
    ]
    return figures, {"pairs": results, "rows": ROWS}


def _seconds(folder: Path, run: str) -> dict[str, float]:
    """The rows once more, into a table of its own."""
    place = folder / run
    app = Pipeline(_APP, settings=Settings(place))
    app.source(
        "records",
        json_files(str(folder / "in")),
        schema="device string, at timestamp, celsius double",
        event_time="at",
        watermark="10 seconds",
        max_per_batch="1 file",
    )

    @app.table(mode="append")
    def counts(records: DataFrame) -> DataFrame:
        return records.groupBy(F.window("at", "10 seconds"), "device").count()

    began = time.perf_counter()
    app.refresh()
    return {"seconds": time.perf_counter() - began}


def _watched(folder: Path, run: str) -> dict[str, float]:
    console = ConsoleProcess([folder / run / ".headwater"], port=0, is_read_only=False)
    try:
        process, everything = psutil.Process(console.pid), psutil.cpu_times()
        before = sum(process.cpu_times()[:2])
        with _asked(console.address):
            found = _seconds(folder, run)
        found["console_cpu_s"] = sum(process.cpu_times()[:2]) - before
        now = psutil.cpu_times()
        found["cpu_s"] = (now.user - everything.user) + (now.system - everything.system)
    finally:
        console.close()
    return found


@contextlib.contextmanager
def _asked(address: str) -> Iterator[None]:
    """Asks what the pages of a pipeline and of its table ask."""
    base, _, token = address.partition("#token=")
    is_over = threading.Event()

    def get(path: str) -> Any:
        request = urllib.request.Request(
            f"{base.rstrip('/')}/api/{path}", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def ask() -> None:
        while not is_over.wait(_EVERY_S):
            for one in get("pipelines")["pipelines"]:
                get(f"p/{one['id']}")
                get(f"p/{one['id']}/series?table=counts&n=0")

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
