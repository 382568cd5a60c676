"""The same DStream program on Spark's own DStreams and on Headwater's.

From a queue, batches are due faster than they can run, so that they follow each other without a
pause: the time from the first to the last is the time they take. A file is one batch: the time
until it is counted is the time it takes.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

from bench.figures import Figure, alternate, figure
from bench.processes import run_side

BATCHES = 20
ROWS = 50_000
FILE_ROWS = 1_000_000
EMPTY_BATCHES = 100


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    figures, details = [], {}
    inputs = {"queue": (BATCHES, ROWS), "file": (1, FILE_ROWS)}
    for kind, source in itertools.product(("word count", "windowed reduce"), inputs):
        batches, rows = inputs[source]
        results = _sides(pairs, kind=kind, input=source, batches=batches, rows=rows)
        ratios = [theirs["seconds"] / ours["seconds"] for ours, theirs in results]
        figures.append(figure(f"{kind}, {source}, throughput ratio", ratios, 0.9, at_least=True))
        details[f"{kind}, {source}"] = results
    results = _sides(pairs, kind="empty", input="queue", batches=EMPTY_BATCHES, rows=0)
    extra = [(o["seconds"] - t["seconds"]) / EMPTY_BATCHES * 1000 for o, t in results]
    figures.append(figure("empty batch, more than Spark's", extra, 150, at_least=False, unit=" ms"))
    details["empty"] = results
    return figures, details


def _sides(pairs: int, **what: Any) -> list[tuple[dict[str, float], dict[str, float]]]:
    with tempfile.TemporaryDirectory() as folder:
        return alternate(
            lambda: run_side("dstream.py", folder=Path(folder), api="headwater", **what),
            lambda: run_side("dstream.py", folder=Path(folder), api="spark", **what),
            pairs,
        )
