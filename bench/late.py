"""Late rows and panes against the same query by hand: a count per window and key, 1,000 keys."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure
from bench.processes import run_side

ROWS = 5_000_000
BATCHES = 200


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    captured = _side("capture", pairs=pairs, rows=ROWS)
    panes = _side("panes", pairs=pairs, rows=ROWS)
    small = _side("small", batches=BATCHES)
    added = small["last_ms"] - small["plain_ms"]
    growth = small["last_ms"] / small["first_ms"]
    figures = [
        figure("lateness measured, ratio", captured["measured"], 0.95, at_least=True),
        figure("capture, nothing late, ratio", captured["clean"], 0.95, at_least=True),
        figure("capture, 1 % late, ratio", captured["late"], 0.85, at_least=True),
        figure("refire, 250,000 rows a batch, ratio", panes["ratios"], 0.65, at_least=True),
        figure("batch time, last 100 of 200 to first", [growth] * 2, 1.1, at_least=False),
        figure(
            "memory after 200 batches", [small["memory_mb"]] * 2, 50, at_least=False, unit=" MB"
        ),
    ]
    print(f"refire: {panes['updated']:,.0f} window-keys updated per batch")
    print(f"refire, 10,000 rows a batch: {added:.0f} ms added to {small['plain_ms']:.0f} ms")
    return figures, {"capture": captured, "panes": panes, "small": small, "added_ms": added}


def _side(what: str, **arguments: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        return run_side("late.py", folder=Path(name), timeout_s=3600, what=what, **arguments)
