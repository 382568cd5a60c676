"""Two thousand batches of a DStream with state: memory and batch time stay as they are, and so does
the time to recover from `kill -9`.

Not a ratio to `pyspark.streaming`: growth is the slope of a line through the samples, per 1,000
batches and in percent of what the line begins with.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure
from bench.processes import SIDES, seconds_until

BATCHES = 2_000
EARLY = 50
EVERY = 50
SETTLED = 400
"""Batches until code is compiled and every key is there."""
KILLS = 3
FLAT = 5.0
"""Percent per 1,000 batches that the noise of a machine makes of nothing."""


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    figures, details = [], {}
    for kind in ("state", "window"):
        with tempfile.TemporaryDirectory() as folder:
            found = details[kind] = _run(Path(folder), kind)
        for what in ("memory_mb", "batch_s"):
            growth = _growth(found[what])
            name = f"{kind}: {what.split('_')[0]}, per 1,000 batches"
            figures.append(figure(name, [growth], FLAT, at_least=False, unit=" %"))
        ratio = statistics.median(found["late"]) / statistics.median(found["early"])
        name = f"{kind}: recovery at {BATCHES} to that at {EARLY}"
        figures.append(figure(name, [ratio], 1.5, at_least=False))
    return figures, details


def _run(folder: Path, kind: str) -> dict[str, Any]:
    _seconds_to(folder, kind, EARLY)
    early = [_seconds_to(folder, kind, 1 + _noted(folder)) for _ in range(KILLS)]
    print(f"{kind}: recovered at {EARLY} in {early}", flush=True)
    _seconds_to(folder, kind, BATCHES)
    # What ran between the two series of kills, in one go.
    lines = [json.loads(line) for line in (folder / "batches").read_text().splitlines()]
    late = [_seconds_to(folder, kind, 1 + _noted(folder)) for _ in range(KILLS)]
    print(f"{kind}: recovered at {BATCHES} in {late}", flush=True)
    first = EARLY + KILLS * 2
    between = [(n, lines[n]["at"] - lines[n - 1]["at"]) for n in range(first + 1, len(lines))]
    return {
        "early": early,
        "late": late,
        "memory_mb": [(n, x["memory_mb"]) for n, x in enumerate(lines) if "memory_mb" in x],
        "batch_s": [
            (part[0][0], statistics.median(seconds for _, seconds in part))
            for part in (between[at : at + EVERY] for at in range(0, len(between), EVERY))
        ],
    }


def _seconds_to(folder: Path, kind: str, batches: int) -> float:
    """Runs the program until it has noted so many batches, and kills it."""
    arguments = json.dumps({"kind": kind, "every": EVERY})
    command = [sys.executable, str(SIDES / "dstream_flat.py"), arguments]
    return seconds_until(
        command, folder=folder, is_done=lambda: _noted(folder) >= batches, end=_killed
    )


def _killed(process: int) -> None:
    os.killpg(process, signal.SIGKILL)


def _noted(folder: Path) -> int:
    path = folder / "noted"
    return int(path.read_text()) if path.exists() else 0


def _growth(samples: Sequence[tuple[int, float]]) -> float:
    settled = [(n, value) for n, value in samples if n >= SETTLED]
    line = statistics.linear_regression(*zip(*settled, strict=True))
    level = line.intercept + line.slope * SETTLED
    return abs(line.slope) * 1000 / level * 100
