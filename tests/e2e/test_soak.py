"""The driver is killed in the middle, several times: every sink holds every row once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.soak import soak

SECRET = ".headwater/services/postgres/password"
"""The only file that may hold it."""


def holding(folder: Path, secret: str) -> list[str]:
    """The files with these bytes: logs, history, checkpoints, tables and what servers keep."""
    return [
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and secret.encode() in file.read_bytes()
    ]


def test_four_sinks_survive_kills_at_random_moments_and_tell_no_secret(
    finish: Callable[..., Any],
) -> None:
    # Not below pytest's folder: PostgreSQL gives up root and could not pass through it.
    folder = Path(tempfile.mkdtemp(prefix="headwater-soak-"))
    folder.chmod(0o755)
    try:
        outcome = soak(folder, crashes=3, for_s=120, after_s=(0, 4), seed=1)
        secret = (folder / SECRET).read_text().strip()
        (folder / "status.json").write_text(finish("status", "--json", folder=folder).output)
        found = holding(folder, secret)
        logged = (folder / ".headwater/logs/spark.log").stat().st_size
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert outcome.crashes >= 2
    assert outcome.rows > 0
    assert outcome.is_exact, outcome
    assert found == [SECRET]
    assert logged > 0
