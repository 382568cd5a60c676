"""How long one streaming test takes, alone and with others beside it in one session."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.figures import Figure, figure
from headwater import Pipeline
from headwater.connectors import kafka
from headwater.testing import (
    Harness,
    add,
    advance_event_time,
    check,
    crash,
    process,
    restart,
    run_all,
)

WARM_UP = 30
"""So many until Java has compiled what they need: later ones are no faster."""
ALONE = 15
TOGETHER = 18
THREADS = 3


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    for _ in range(WARM_UP):
        script()
    alone = [_seconds(script) for _ in range(ALONE)]
    rates = [TOGETHER / _seconds(_together) for _ in range(3)]
    figures = [
        figure("a streaming test alone, seconds", alone, 1.5, at_least=False, unit=" s"),
        figure("tests per second, 3 at a time", rates, 1, at_least=True),
    ]
    return figures, {"alone": alone, "per_second": rates, "threads": THREADS}


def script() -> None:
    """Five data batches with state, a closed window, a late row, a crash and a restart."""
    Harness(iot).run(
        add("signals", [("dev1", "12:00:05", 20.0)]),
        process(),
        advance_event_time("signals", "12:12:00"),
        add("signals", [("dev1", "12:00:07", 21.0)]),
        process(),
        check("device_minutes", [("dev1", "12:00:00", 20.0)]),
        crash("after_sink"),
        restart(),
        process(),
        check("device_minutes", [("dev1", "12:00:00", 20.0)]),
    )


def _together() -> None:
    run_all({str(number): script for number in range(TOGETHER)}, threads=THREADS)


def _seconds(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


iot = Pipeline("iot")
iot.source(
    "signals",
    kafka("signals"),
    schema="device string, at timestamp, celsius double",
    event_time="at",
    watermark="10 minutes",
)


@iot.table(key=["device", "minute"], mode="update")
def device_minutes(signals: DataFrame) -> DataFrame:
    return (
        signals.groupBy(F.window("at", "1 minute"), "device")
        .agg(F.avg("celsius").alias("celsius"))
        .select("device", F.col("window.start").alias("minute"), "celsius")
    )
