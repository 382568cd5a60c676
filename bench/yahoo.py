"""Headwater's defaults against stock Spark's: a backlog of ad events from a cold start."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

from bench import ads
from bench.figures import Figure, alternate, figure
from bench.processes import run_side
from headwater.local import services

ROWS = 2_000_000


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ads.write_ads(folder)
        address = services.up(folder / ".headwater", "kafka").address
        try:
            ads.create_topic(address, "events", ads.PARTITIONS)
            oracle = ads.send_backlog(address, "events", ROWS)
            numbers = itertools.count()

            def side(script: str) -> dict[str, float]:
                topic = f"out-{next(numbers)}"
                ads.create_topic(address, topic, 1)
                found = run_side(script, folder=folder, address=address, topic=topic)
                ads.check(address, topic, oracle)
                return {**found, "rows_per_s": ROWS / found["seconds"]}

            results = alternate(
                lambda: side("yahoo_headwater.py"), lambda: side("yahoo_stock.py"), pairs
            )
        finally:
            services.down(folder / ".headwater", "kafka")
    ratios = [mine["rows_per_s"] / stock["rows_per_s"] for mine, stock in results]
    figures = [figure("throughput against stock Spark, cold, ratio", ratios, 2, at_least=True)]
    return figures, {"rows": ROWS, "pairs": results}
