"""Two hundred small batches with panes: neither their time nor memory grows with closed windows.

Not a ratio: what is compared is the second half of the batches with the first.
"""

from __future__ import annotations

from typing import Any

from bench.figures import Figure, figure
from bench.late import side

BATCHES = 200


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    small = side("small", batches=BATCHES)
    added = small["last_ms"] - small["plain_ms"]
    print(f"refire, 10,000 rows a batch: {added:.0f} ms added to {small['plain_ms']:.0f} ms")
    growth = small["last_ms"] / small["first_ms"]
    memory = small["memory_mb"]
    figures = [
        figure("batch time, last 100 of 200 to first", [growth], 1.1, at_least=False),
        figure("memory, batch 100 to 195", [memory], 50, at_least=False, unit=" MB"),
    ]
    return figures, {"small": small, "added_ms": added}
