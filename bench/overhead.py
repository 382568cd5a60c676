"""The same query through Headwater and by hand: JSON files, count per window and key, Delta."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from bench.figures import Figure, alternate, figure
from bench.processes import run_side

ROWS = 1_000_000
FILES = 8
KEYS = 1_000


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_input(folder / "in")
        results = alternate(
            lambda: run_side("overhead_headwater.py", folder=folder, rows=ROWS),
            lambda: run_side("overhead_spark.py", folder=folder, rows=ROWS),
            pairs,
        )
    ratios = [plain["seconds"] / mine["seconds"] for mine, plain in results]
    extra = [mine["memory_mb"] - plain["memory_mb"] for mine, plain in results]
    figures = [
        figure("throughput through Headwater, ratio", ratios, 0.97, at_least=True),
        figure("extra driver memory, MB", extra, 50, at_least=False, unit=" MB"),
    ]
    return figures, {"rows": ROWS, "keys": KEYS, "pairs": results}


def write_input(folder: Path) -> None:
    folder.mkdir()
    per_file = ROWS // FILES
    for number in range(FILES):
        with open(folder / f"{number}.json", "w") as file:
            for row in range(number * per_file, (number + 1) * per_file):
                seconds = row * 3600 // ROWS
                at = f"2026-01-01T12:{seconds // 60:02}:{seconds % 60:02}.000Z"
                record = {"device": f"dev{row % KEYS}", "at": at, "celsius": row % 400 / 10}
                file.write(json.dumps(record) + "\n")
