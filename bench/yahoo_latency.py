"""Latency at 5,000 rows a second: from the newest event in a count to the broker's copy of it."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import ads
from bench.figures import Figure, alternate, figure
from bench.processes import SIDES
from headwater.local import services

RATE = 5_000
SECONDS = 20
WARM_UP_MS = 8_000
"""Left out at the beginning: the first batches of both sides compile their plans."""


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ads.write_ads(folder)
        address = services.up(folder / ".headwater", "kafka").address
        try:
            numbers = itertools.count()
            results = alternate(
                lambda: _side("yahoo_headwater.py", folder, address, next(numbers)),
                lambda: _side("yahoo_stock.py", folder, address, next(numbers)),
                pairs,
            )
        finally:
            services.down(folder / ".headwater", "kafka")
    ratios = [stock["p50_ms"] / mine["p50_ms"] for mine, stock in results]
    figures = [figure("p50 latency, stock over Headwater", ratios, 5, at_least=True)]
    return figures, {"rate": RATE, "seconds": SECONDS, "pairs": results}


def _side(script: str, folder: Path, address: str, number: int) -> dict[str, float]:
    source, target = f"events-{number}", f"out-{number}"
    ads.create_topic(address, source, ads.PARTITIONS)
    ads.create_topic(address, target, 1)
    arguments = json.dumps({"address": address, "source": source, "topic": target, "live": True})
    with open(folder / "side.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(SIDES / script), arguments],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdin
    assert process.stdout
    try:
        assert process.stdout.readline().strip() == "running", "the side did not start"
        oracle = ads.send_steadily(address, source, rate=RATE, seconds=SECONDS)
        process.stdin.write("finish\n")
        process.stdin.flush()
        assert process.wait(600) == 0
    finally:
        process.kill()
    ads.check(address, target, oracle)
    return _latencies(address, target)


def _latencies(address: str, topic: str) -> dict[str, float]:
    rows = [(row["newest_ms"], stored_ms) for row, stored_ms in ads.results(address, topic)]
    first = min(newest for newest, _ in rows)
    late = sorted(stored - newest for newest, stored in rows if newest > first + WARM_UP_MS)
    return {"p50_ms": statistics.median(late), "p99_ms": late[int(len(late) * 0.99)]}
