"""Panes against the same query by hand: a count per window and key, 1,000 keys."""

from __future__ import annotations

from typing import Any

from bench.figures import Figure, figure
from bench.late import ROWS, side


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    panes = side("panes", pairs=pairs, rows=ROWS)
    print(f"refire: {panes['updated']:,.0f} window-keys updated per batch")
    ratio = figure("refire, 250,000 rows a batch, ratio", panes["ratios"], 0.65, at_least=True)
    return [ratio], {"panes": panes}
