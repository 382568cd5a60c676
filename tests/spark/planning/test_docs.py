"""The table "kind of query and mode" of docs/reference/modes.md against Spark's checker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.definitions import OutputMode
from headwater.planning.analysis import mode_problem

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "modes.md"


def documented() -> dict[str, set[OutputMode]]:
    table = PAGE.read_text().split("| query |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {
        name: {mode for mode, cell in zip(OutputMode, cells, strict=False) if cell == "yes"}
        for name, *cells in rows
    }


def test_the_page_says_what_spark_says(queries: dict[str, Any]) -> None:
    found = {
        kind: {mode for mode in OutputMode if mode_problem(frame, mode) is None}
        for kind, frame in queries.items()
    }
    assert documented() == found
