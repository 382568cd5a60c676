"""Sides of a comparison as fresh processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIDES = Path(__file__).parent / "sides"
HEADWATER = [sys.executable, "-m", "headwater.cli.main"]


def run_side(
    script: str, *, folder: Path, timeout_s: float = 900, **arguments: Any
) -> dict[str, Any]:
    """Runs a script of `sides/` to its end; it prints one JSON line with its measurements."""
    with tempfile.NamedTemporaryFile("w+", prefix="headwater-bench-") as errors:
        done = subprocess.run(
            [sys.executable, str(SIDES / script), json.dumps(arguments)],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=_environment(),
            timeout=timeout_s,
        )
        errors.seek(0)
        if done.returncode != 0:
            raise RuntimeError(f"{script} failed:\n{errors.read()[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def seconds_until(
    command: list[str],
    *,
    folder: Path,
    is_done: Callable[[], bool],
    end: Callable[[int], None] = lambda process: os.kill(process, signal.SIGTERM),
) -> float:
    """Time from the start of a process until the condition holds; the process, which leads a group
    of its own, is then ended."""
    began = time.perf_counter()
    with open(folder / "process.log", "ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env=_environment(), start_new_session=True
        )
        try:
            while not is_done():
                if process.poll() is not None:
                    raise RuntimeError((folder / "process.log").read_text()[-3000:])
                time.sleep(0.01)
            return time.perf_counter() - began
        finally:
            end(process.pid)
            process.wait(60)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONWARNINGS": "ignore"}
