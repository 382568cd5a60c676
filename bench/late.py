"""Late rows against the same query by hand: a count per window and key, 1,000 keys."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure
from bench.processes import run_side

ROWS = 5_000_000


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    captured = side("capture", pairs=pairs, rows=ROWS)
    figures = [
        figure("lateness measured, ratio", captured["measured"], 0.95, at_least=True),
        figure("capture, nothing late, ratio", captured["clean"], 0.95, at_least=True),
        figure("capture, 1 % late, ratio", captured["late"], 0.85, at_least=True),
    ]
    return figures, captured


def side(what: str, **arguments: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        return run_side("late.py", folder=Path(name), timeout_s=5400, what=what, **arguments)
