"""Whether `verify` finds what is wrong in time, and finds nothing wrong with the examples."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure
from headwater.cli.app import load_app
from headwater.testing.harness import session
from headwater.verification import verify

_ROOT = Path(__file__).parent.parent
WRONG = _ROOT / "tests/spark/verification/wrong"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Example:
    """An example and what its verification needs beside it."""

    name: str
    late: int = 0
    """The rows that are late on purpose."""
    rows: Mapping[str, list[dict[str, Any]]] | None = None
    """What is in its topics, where it reads from a broker."""


def _orders() -> list[dict[str, Any]]:
    order = {"key": "k", "value": "v", "topic": "orders"}
    return [{**order, "offset": n, "timestamp": NOON + dt.timedelta(seconds=n)} for n in range(4)]


def _clicks() -> list[dict[str, Any]]:
    return [
        {
            "page": f"p{n % 3}",
            "at": NOON + dt.timedelta(minutes=7 * n),
            "_kafka": {"offset": 40 * n},
        }
        for n in range(9)
    ]


def _records() -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "device": f"dev-{n % 3:04}",
            "at": NOON + dt.timedelta(seconds=4 * n),
            "celsius": 20.0 + n % 5,
        }
        for n in range(12)
    ]


def _signals() -> list[dict[str, Any]]:
    """The same records, with the time at which the broker had them."""
    return [
        {**record, "_kafka": {"timestamp": record["at"] + dt.timedelta(seconds=1)}}
        for record in _records()
    ]


EXAMPLES = (
    Example("iot", rows={"signals": _signals(), "records": _records()}),
    Example("one_function"),
    Example("etl"),
    Example("word_count"),
    Example("clickstream"),
    Example("ads", late=1),
    Example("event_time", late=1),
    Example("inactive"),
    Example("web_log"),
    Example("kafka", rows={"orders": _orders()}),
    Example("latency", rows={"pings": [{"key": "k", "value": str(n)} for n in range(4)]}),
    Example("lambda", rows={"clicks": _clicks()}),
)
"""Every example that is a pipeline: those under `dstream` are programs."""
SEEDS = 20


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    began = time.perf_counter()
    # Whether they hold does not depend on how long it takes: two at a time.
    with ThreadPoolExecutor(2) as pool:
        told = pool.map(_in_a_process_of_its_own, EXAMPLES)
        alarms = {example.name: lines for example, lines in zip(EXAMPLES, told, strict=True)}
    examples_s = time.perf_counter() - began
    found = _found()
    times = [60.0 if seconds is None else seconds for seconds in found.values()]
    missed = sum(seconds is None for seconds in found.values())
    figures = [
        figure("wrong pipelines that are not found", [missed], 0, at_least=False),
        figure("slowest to be found, seconds", [max(times)], 60, at_least=False, unit=" s"),
        figure(
            f"false alarms on {SEEDS} seeds of the examples",
            [sum(map(bool, alarms.values()))],
            0,
            at_least=False,
        ),
    ]
    return figures, {"found_after_s": found, "alarms": alarms, "examples_s": examples_s}


def _found() -> dict[str, float | None]:
    """After how many seconds each of the wrong pipelines was found."""
    found: dict[str, float | None] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        spark = session(load_app(str(WRONG / "wall_clock.py")).pipeline)
        for path in sorted(WRONG.glob("*.py")):
            shutil.copy(path, folder)
            app = load_app(str(folder / path.name)).pipeline
            moments: list[float] = []
            began = time.perf_counter()

            def tell(line: str, since: float = began, into: list[float] = moments) -> None:
                if "BROKEN" in line:
                    into.append(time.perf_counter() - since)

            result = verify(app, spark, crashes=True, seconds=60, tell=tell)
            moments.append(time.perf_counter() - began)
            found[path.stem] = None if result.holds else moments[0]
            print(f"{path.stem}: found after {found[path.stem]} s", flush=True)
        spark.stop()
    return found


def _in_a_process_of_its_own(example: Example) -> list[str]:
    """What `python -m bench.verify NAME` says of an example: nothing, if it holds."""
    command = [sys.executable, "-m", "bench.verify", example.name]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    alarms: list[str] = said["alarms"]
    print(f"{example.name}: {said['seeds']} seeds, {alarms or 'holds'}", flush=True)
    return alarms


def main(name: str) -> None:
    (example,) = [one for one in EXAMPLES if one.name == name]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(_ROOT / "examples" / name, Path(folder) / name)
        os.chdir(folder)
        app = load_app(str(Path(folder) / name / "app.py")).pipeline
        result = verify(
            app,
            session(app),
            rows=example.rows,
            crashes=True,
            seconds=7200,
            trials=SEEDS,
            late_budget=example.late,
        )
    alarms = [line for problem in result.problems for line in problem.lines()]
    print(json.dumps({"seeds": result.trials, "alarms": alarms}))


if __name__ == "__main__":
    main(sys.argv[1])
