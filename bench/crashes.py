"""The whole crash matrix: every sink, in every mode, crashed at every point by every kind: on one
machine, and executors on a cluster of two workers.

Not a ratio: the figures are rows that are missing or too many, and cells that were not reached. The
application is `examples/every_sink`, on servers of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure
from headwater.local import services

EXAMPLE = Path(__file__).parent.parent / "examples/every_sink"
SYSTEMS = ("kafka", "postgres", "mariadb", "redis")
PLACES = {"one machine": (), "a cluster": ("--profile", "cluster", "--kind", "executor")}


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    # Not below a folder that only root may pass through: PostgreSQL runs as another user.
    root = Path(tempfile.mkdtemp(prefix="headwater-crashes-"))
    root.chmod(0o755)
    folder = root / "every_sink"
    shutil.copytree(EXAMPLE, folder)
    local = folder / ".headwater"
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    broken = False
    try:
        for system in SYSTEMS:
            services.up(local, system)
        for place, flags in PLACES.items():
            if place == "a cluster":
                services.shape_cluster(local, workers=2)
                services.up(local, "spark")
            found = _all(folder, flags)
            figures += _figures(place, found)
            details[place] = _table(found)
            # What is left of a loss is looked at, so it stays, and the next place would remove it.
            broken = not all(one.is_reached for one in figures)
            if broken:
                print(f"kept: {root}", file=sys.stderr)
                break
    finally:
        for system in (*SYSTEMS, "spark"):
            services.down(local, system)
        if not broken:
            shutil.rmtree(root, ignore_errors=True)
    return figures, details


def _all(folder: Path, flags: tuple[str, ...]) -> dict[str, Any]:
    """What `verify --crash --all` found."""
    command = [sys.executable, "-m", "headwater.cli.main", "verify", "--crash", "--all", *flags]
    subprocess.run(command, cwd=folder, check=False)
    found: dict[str, Any] = json.loads((folder / "crash-matrix.json").read_text())
    return found


def _figures(place: str, found: dict[str, Any]) -> list[Figure]:
    rounds = found["rounds"]
    reached = {_cell(crash) for crash in _crashes(found) if crash["batch"] is not None}

    def rows(what: str) -> int:
        return sum(sum(one[what].values()) for one in rounds)

    return [
        figure(f"{place}: cells reached", [len(reached)], 1, at_least=True),
        figure(f"{place}: cells not reached", [len(found["not_reached"])], 0, at_least=False),
        figure(f"{place}: rows missing", [rows("missing")], 0, at_least=False),
        figure(f"{place}: rows too many", [rows("twice")], 0, at_least=False),
    ]


def _crashes(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [crash for one in found["rounds"] for crash in one["crashes"]]


def _cell(crash: dict[str, Any]) -> tuple[str, ...]:
    return tuple(crash[name] for name in ("table", "sink", "mode", "kind", "point"))


def _table(found: dict[str, Any]) -> dict[str, int]:
    """How often each cell was reached."""
    reached = Counter(_cell(crash) for crash in _crashes(found) if crash["batch"] is not None)
    return {", ".join(cell): reached[cell] for cell in sorted(map(_cell, _crashes(found)))}
