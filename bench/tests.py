"""How long the tests take, each tier once: a figure for people, not a comparison."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure

_ROOT = Path(__file__).parent.parent


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    unit = _seconds("test", "unit")
    whole = _seconds("test")
    figures = [
        figure("unit tier, seconds", [unit], 20, at_least=False, unit=" s"),
        figure("all tests, seconds", [whole], 30 * 60, at_least=False, unit=" s"),
    ]
    return figures, {}


def _seconds(*arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([str(_ROOT / "headwater"), *arguments], check=True, cwd=_ROOT)
    return time.perf_counter() - began
