"""The driver is killed in the middle, several times: every sink holds every row once."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.soak import soak


def test_four_sinks_survive_kills_at_random_moments() -> None:
    # Not below pytest's folder: PostgreSQL gives up root and could not pass through it.
    folder = Path(tempfile.mkdtemp(prefix="headwater-soak-"))
    folder.chmod(0o755)
    try:
        outcome = soak(folder, crashes=3, for_s=120, after_s=(0, 4), seed=1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert outcome.crashes >= 2
    assert outcome.rows > 0
    assert outcome.is_exact, outcome
