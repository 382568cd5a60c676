"""The tables of the demo find the faults of simulated fleets, and keep learning to do so."""

from __future__ import annotations

import datetime as dt
import functools
import random
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import memory
from headwater.demo import app, baselines
from headwater.demo.judging import Finding, Judgement, judged
from headwater.demo.world import DAY_S, Fault, Kind, World
from headwater.testing import (
    Harness,
    add,
    advance_event_time,
    check,
    check_new,
    process,
    restart,
)

SEEDS = (11, 12, 13, 14, 15)
DEVICES = 20
PER_S = 4 * DEVICES
BEGIN_S = 1_800_000_000.0
LIVE_S = 150
CUTS_S = (0, 35, 65, 95)
"""When the baseline was learnt, after the beginning: once before, then anew."""
SINCE_S, UNTIL_S = BEGIN_S + 40, BEGIN_S + LIVE_S - 25


def world(seed: int) -> tuple[list[Fault], list[tuple[str, float, float]]]:
    """The faults of a fleet, and what its devices measured in two days and the minutes after."""
    made, chance = World(seed, DEVICES), random.Random(seed)
    rows = []
    for number in range(int((2 * DAY_S + LIVE_S) * PER_S)):
        at_s = BEGIN_S - 2 * DAY_S + number / PER_S
        if BEGIN_S + 10 < at_s < UNTIL_S:
            list(made.advance(at_s))
        device = chance.choice(made.fleet)
        celsius = made.celsius(device, at_s)
        if celsius is not None:
            rows.append((f"{seed}/{device.name}", at_s, celsius))
    return made.faults, rows


@pytest.fixture(scope="module")
def fleets(spark: SparkSession) -> Iterator[tuple[dict[int, list[Fault]], DataFrame]]:
    import pandas as pd

    worlds = {seed: world(seed) for seed in SEEDS}
    rows = [row for _, measured in worlds.values() for row in measured]
    frame = spark.createDataFrame(pd.DataFrame(rows, columns=["device", "at_s", "celsius"]))
    readings = frame.select(
        F.monotonically_increasing_id().alias("id"),
        "device",
        F.lit("Aare").alias("site"),
        F.timestamp_millis((F.col("at_s") * 1000).cast("long")).alias("at"),
        F.timestamp_millis((F.col("at_s") * 1000).cast("long")).alias("arrived"),
        "celsius",
    ).cache()
    yield {seed: faults for seed, (faults, _) in worlds.items()}, readings
    readings.unpersist()


def test_faults_are_found_over_five_fleets_and_better_by_a_baseline_that_learns(
    fleets: tuple[dict[int, list[Fault]], DataFrame],
) -> None:
    faults, readings = fleets
    versions = [learnt_at(readings, cut).withColumn("model_version", F.lit(cut)) for cut in CUTS_S]
    baseline = functools.reduce(DataFrame.unionByName, versions).cache()
    off = app.anomalies(app.scored(readings.where(F.col("at") >= moment(SINCE_S)), baseline))
    found = [(row["model_version"], finding("anomalies", row, "at")) for row in off.collect()]
    others = [
        finding(table.__name__, row, "since")
        for table in (app.stuck, app.silent)
        for row in table(readings).collect()
    ]
    wrong = {"learning": 0, "frozen": 0}
    for seed in SEEDS:
        learning = [one for version, one in found if is_used(version, one.at_s)] + others
        frozen = [one for version, one in found if version == 0] + others
        kept, first = verdict(seed, faults, learning), verdict(seed, faults, frozen)
        assert kept.precision >= 0.9, (seed, kept)
        assert kept.recall >= 0.8, (seed, kept)
        assert all(kept.recall_of(kind) >= 0.75 for kind in Kind), (seed, kept)
        wrong["learning"] += kept.findings - kept.right
        wrong["frozen"] += first.findings - first.right
    # The season goes on, and what was learnt once calls the new normal a drift.
    assert wrong["frozen"] > 10 * max(1, wrong["learning"]), wrong


def learnt_at(readings: DataFrame, cut_s: float) -> DataFrame:
    begin_s = BEGIN_S + cut_s - baselines.LEARNT_FROM_S
    known = readings.where(F.col("at").between(moment(begin_s), moment(BEGIN_S + cut_s)))
    return baselines.learnt(known)


def is_used(version: int, at_s: float) -> bool:
    """Whether a version was the newest then; a training takes five seconds."""
    return version == max(cut for cut in CUTS_S if BEGIN_S + cut + 5 <= at_s)


def verdict(seed: int, faults: dict[int, list[Fault]], findings: list[Finding]) -> Judgement:
    prefix = f"{seed}/"
    mine = [
        Finding(one.table, one.device.removeprefix(prefix), one.at_s)
        for one in findings
        if one.device.startswith(prefix)
    ]
    return judged(faults[seed], mine, since_s=SINCE_S, until_s=UNTIL_S)


def finding(table: str, row: object, column: str) -> Finding:
    return Finding(table, row["device"], row[column].timestamp())  # type: ignore[index]


def moment(at_s: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(at_s, dt.UTC)


def test_a_silence_is_told_once_by_the_timer_or_by_the_return(spark: SparkSession) -> None:
    small = Pipeline("small")
    small.source(
        "signals",
        memory(),
        schema="device string, at timestamp",
        event_time="at",
        watermark="10 seconds",
    )
    small.table(app.silent)
    Harness(small, spark=spark).run(
        add("signals", [("back", "12:00:00"), ("gone", "12:00:01"), ("here", "12:00:01")]),
        process(),
        # Back before the watermark has come to the timer.
        add("signals", [("back", "12:00:14"), ("here", "12:00:08"), ("here", "12:00:15")]),
        process(),
        check("silent", [("back", "12:00:00")]),
        restart(),
        add("signals", [("here", "12:00:22"), ("back", "12:00:21")]),
        process(),
        check("silent", [("back", "12:00:00"), ("gone", "12:00:01")]),
        add("signals", [("gone", "12:00:24"), ("here", "12:00:28"), ("back", "12:00:28")]),
        process(),
        advance_event_time("signals", "12:00:34"),
        check("silent", [("back", "12:00:00"), ("gone", "12:00:01")]),
        advance_event_time("signals", "12:00:43"),
        check("silent", [("back", "12:00:00"), ("gone", "12:00:01"), ("gone", "12:00:24")]),
        # The watermark passes a timer and the silence behind it at once.
        add("signals", [("here", "12:00:44")]),
        process(),
        check_new("silent", [("here", "12:00:28")]),
        advance_event_time("signals", "12:05:00"),
        check_new("silent", [("back", "12:00:28"), ("here", "12:00:44")]),
    )
