"""Panes against the same query by hand: a count per window and key, 1,000 keys."""

from __future__ import annotations

from typing import Any

from bench.figures import Figure, figure
from bench.late import ROWS, side

BATCHES = 200


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    small = side("small", batches=BATCHES)
    added = small["last_ms"] - small["plain_ms"]
    print(
        f"refire, 10,000 rows a batch: {added:.0f} ms added to {small['plain_ms']:.0f} ms",
        flush=True,
    )
    panes = side("panes", pairs=pairs, rows=ROWS)
    print(f"refire: {panes['updated']:,.0f} window-keys updated per batch")
    growth = small["last_ms"] / small["first_ms"]
    figures = [
        figure("refire, 250,000 rows a batch, ratio", panes["ratios"], 0.65, at_least=True),
        figure("batch time, last 100 of 200 to first", [growth] * 2, 1.1, at_least=False),
        figure(
            "memory after 200 batches", [small["memory_mb"]] * 2, 50, at_least=False, unit=" MB"
        ),
    ]
    return figures, {"panes": panes, "small": small, "added_ms": added}
