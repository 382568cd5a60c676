"""Conditions provoked for real: found in ten batches, and gone where the advice is followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater import Pipeline
from headwater.connectors import rate
from headwater.observe.doctor.cases import Case
from headwater.observe.doctor.examination import examine
from headwater.observe.doctor.rules import advice
from headwater.settings import Settings

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture
def many_partitions(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "12")
    yield
    spark.conf.set(PARTITIONS, str(before))


def examined(folder: Path, *, trigger: str, batches: int) -> Case:
    """A table of counts that ran for so many batches, as the doctor sees it."""
    app = Pipeline("app", settings=Settings(folder=folder, master="local[2]"))
    app.source("ticks", rate(rows_per_batch=100, rows=100 * batches))

    @app.table(mode="complete", trigger=trigger, unbounded_state=True)
    def counts(ticks: DataFrame) -> DataFrame:
        return ticks.groupBy((ticks.value % 10).alias("digit")).count()

    run = app.start()
    try:
        last = batches - 1
        while (run["counts"].last_batch or 0) < last and run["counts"].is_active:
            run["counts"].await_termination(timeout_s=0.2)
    finally:
        run.stop()
    run.raise_failure()
    [case] = examine(folder / ".headwater", "app")
    return case


@pytest.mark.usefixtures("many_partitions")
def test_too_many_partitions_and_a_short_trigger_are_found(tmp_path: Path) -> None:
    case = examined(tmp_path, trigger="50 milliseconds", batches=7)
    provoked = {"too_many_partitions", "batch_longer_than_trigger"}
    found = {one.rule: one for one in advice([case]) if one.rule in provoked}
    assert set(found) == provoked
    assert found["too_many_partitions"].setting.startswith("shuffle_partitions = 2 ")
    assert "12 partitions, on 2 cores" in found["too_many_partitions"].finding
    assert (case.about["has_changelog"], case.node["unbounded_state"]) == (True, True)

    # The session of the tests has the advised number of partitions.
    spark = SparkSession.getActiveSession()
    assert spark is not None
    spark.conf.set(PARTITIONS, "2")
    cured = examined(tmp_path / "cured", trigger="default", batches=7)
    assert not {one.rule for one in advice([cured])} & set(found)
    # What it gains in time is for `headwater bench doctor`: other tests run beside this one.
    assert {b.state_partitions for b in cured.busy} == {2}
