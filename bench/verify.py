"""Whether `verify` finds what is wrong in time, and finds nothing wrong with the examples."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure
from headwater.cli.app import load_app
from headwater.testing.harness import session
from headwater.verification import verify

_ROOT = Path(__file__).parent.parent
WRONG = _ROOT / "tests/spark/verification/wrong"
EXAMPLES = {
    "one_function": 0,
    "etl": 0,
    "word_count": 0,
    "clickstream": 0,
    "ads": 1,
    "event_time": 1,
    "inactive": 0,
    "web_log": 0,
}
"""With the rows that are late on purpose."""
SEEDS = 20


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        spark = session(load_app(str(WRONG / "wall_clock.py")).pipeline)
        found: dict[str, float | None] = {}
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
        alarms: dict[str, list[str]] = {}
        began = time.perf_counter()
        for example, late in EXAMPLES.items():
            shutil.copytree(_ROOT / "examples" / example, folder / example)
            app = load_app(str(folder / example / "app.py")).pipeline
            result = verify(app, spark, crashes=True, seconds=3600, trials=SEEDS, late_budget=late)
            alarms[example] = [line for p in result.problems for line in p.lines()]
            print(f"{example}: {result.trials} seeds, {alarms[example] or 'holds'}", flush=True)
        examples_s = time.perf_counter() - began
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
