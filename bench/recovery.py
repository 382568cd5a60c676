"""From `kill -9` of the driver to the next committed batch, against a cold start.

Both are starts of `headwater run` on a table with state. The second finds a lock that nobody holds,
a batch that was never begun, and a state to load.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure
from bench.processes import HEADWATER, seconds_until
from bench.start import APP

_RUN = [*HEADWATER, "run", "app.py"]


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(pairs):
            results.append(_pair(Path(folder) / str(number)))
            cold, again = results[-1]["cold"], results[-1]["recovery"]
            print(f"pair {number + 1} of {pairs}: {cold:.3g} | {again:.3g}", flush=True)
    ratios = [result["recovery"] / result["cold"] for result in results]
    found = figure("kill -9 to next commit, to a cold start", ratios, 1.3, at_least=False)
    return [found], {"pairs": results}


def _pair(folder: Path) -> dict[str, float]:
    (folder / "in").mkdir(parents=True)
    (folder / "app.py").write_text(APP)
    cold = _seconds_to_commit(folder, 0)
    recovery = _seconds_to_commit(folder, 1)
    shutil.rmtree(folder)
    return {"cold": cold, "recovery": recovery}


def _seconds_to_commit(folder: Path, batch: int) -> float:
    (folder / f"in/{batch}.json").write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n')
    commit = folder / f".headwater/app/checkpoints/counted/commits/{batch}"
    return seconds_until(_RUN, folder=folder, is_done=commit.exists, end=_killed)


def _killed(process: int) -> None:
    os.killpg(process, signal.SIGKILL)
