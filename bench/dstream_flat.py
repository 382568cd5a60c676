"""Two thousand batches of a DStream with state: memory and batch time stay as they are, and so does
the time to recover from `kill -9`.

Not a ratio to `pyspark.streaming`: growth is the slope of the samples, per 1,000 batches and in
percent of their median. Less than nothing is fine: code becomes faster for a long while.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure, slope
from bench.processes import SIDES, seconds_until

KINDS = ("state", "window")
BATCHES = 2_000
EARLY = 50
EVERY = 50
SETTLED = 400
"""Batches until code is compiled and every key is there."""
KILLS = 3
FLAT = 5.0
"""Percent per 1,000 batches that the noise of a machine makes of nothing."""


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    """Both kinds run side by side, and are killed side by side."""
    together = threading.Barrier(len(KINDS))
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(len(KINDS)) as threads:
        folders = {kind: Path(root) / kind for kind in KINDS}
        runs = [threads.submit(_run, folders, kind, together) for kind in KINDS]
        details = {kind: run.result() for kind, run in zip(KINDS, runs, strict=True)}
    return figures_of(details), details


def figures_of(details: Mapping[str, Any]) -> list[Figure]:
    figures = []
    for kind, found in details.items():
        for what in ("memory_mb", "batch_s"):
            growth = _growth(found[what])
            name = f"{kind}: {what.split('_')[0]}, per 1,000 batches"
            figures.append(figure(name, [growth], FLAT, at_least=False, unit=" %"))
        ratio = statistics.median(found["late"]) / statistics.median(found["early"])
        name = f"{kind}: recovery at {BATCHES} to that at {EARLY}"
        figures.append(figure(name, [ratio], 1.5, at_least=False))
    return figures


def _run(folders: Mapping[str, Path], kind: str, together: threading.Barrier) -> dict[str, Any]:
    folder = folders[kind]
    folder.mkdir()
    try:
        _seconds_to(folder, kind, lambda: _noted(folder) >= EARLY)
        early = _recoveries(folder, kind, together)
        # Who is done first goes on, so that the other one's batches do not become faster.
        _seconds_to(folder, kind, lambda: min(map(_noted, folders.values())) >= BATCHES)
        # What ran between the two series of kills, in one go.
        lines = [json.loads(line) for line in (folder / "batches").read_text().splitlines()]
        late = _recoveries(folder, kind, together)
    except BaseException:
        together.abort()
        raise
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


def _recoveries(folder: Path, kind: str, together: threading.Barrier) -> list[float]:
    found = []
    for _ in range(KILLS):
        together.wait()
        found.append(_seconds_to(folder, kind, _goes_on(folder)))
    print(f"{kind}: recovered at {_noted(folder)} in {found}", flush=True)
    together.wait()
    return found


def _seconds_to(folder: Path, kind: str, is_done: Callable[[], bool]) -> float:
    """Runs the program until the condition holds, and kills it."""
    arguments = json.dumps({"kind": kind, "every": EVERY})
    command = [sys.executable, str(SIDES / "dstream_flat.py"), arguments]
    return seconds_until(command, folder=folder, is_done=is_done, end=_killed)


def _killed(process: int) -> None:
    os.killpg(process, signal.SIGKILL)


def _goes_on(folder: Path) -> Callable[[], bool]:
    before = _noted(folder)
    return lambda: _noted(folder) > before


def _noted(folder: Path) -> int:
    path = folder / "noted"
    return int(path.read_text()) if path.exists() else 0


def _growth(samples: Sequence[tuple[int, float]]) -> float:
    settled = [(n, value) for n, value in samples if n >= SETTLED]
    level = statistics.median(value for _, value in settled)
    return slope(settled) * 1000 / level * 100
