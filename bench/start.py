"""How long a user waits: the help text, and the first committed batch."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import Figure, alternate, figure
from bench.processes import HEADWATER, SIDES, seconds_until

APP = """
from headwater import Pipeline
from headwater.connectors import json

app = Pipeline("app")
app.source("rows", json("in"), schema="id long, name string")
app.sql(
    "counted",
    "select name, count(*) as n from rows group by name",
    mode="complete",
    unbounded_state=True,
)
"""


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    helps = [_help_seconds() for _ in range(pairs)]
    with tempfile.TemporaryDirectory() as folder:
        results = alternate(
            lambda: _first_commit(Path(folder) / "mine", is_headwater=True),
            lambda: _first_commit(Path(folder) / "plain", is_headwater=False),
            pairs,
        )
    ratios = [mine["seconds"] / plain["seconds"] for mine, plain in results]
    figures = [
        figure("help, seconds", helps, 0.3, at_least=False, unit=" s"),
        figure("start to first commit, ratio", ratios, 1.25, at_least=False),
    ]
    return figures, {"help_s": helps, "pairs": results}


def _help_seconds() -> float:
    began = time.perf_counter()
    subprocess.run([*HEADWATER, "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _first_commit(folder: Path, *, is_headwater: bool) -> dict[str, float]:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "in").mkdir(parents=True)
    (folder / "in/rows.json").write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n')
    (folder / "app.py").write_text(APP)
    plain = [sys.executable, str(SIDES / "start_spark.py")]
    mine = [*HEADWATER, "run", "app.py"]
    pattern = "**/commits/0"
    return {
        "seconds": seconds_until(
            mine if is_headwater else plain,
            folder=folder,
            is_done=lambda: any(folder.glob(pattern)),
        )
    }
