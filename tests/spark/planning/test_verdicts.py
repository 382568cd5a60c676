"""A changed definition on an old checkpoint: what resumes, what is noted, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import console, kafka
from headwater.errors import CheckpointIncompatible
from headwater.testing import Harness, add, check_new, process, restart

pytestmark = pytest.mark.usefixtures("spark")
Body = Callable[..., DataFrame]
SCHEMA = "device string, at timestamp, n int"
ROWS = [("a", "12:00:05", 1), ("b", "12:01:00", 2)]


def counted(signals: DataFrame) -> DataFrame:
    windows = F.window("at", "1 minute")
    return signals.groupBy("device", windows).count().drop("window")


def application(body: Body = counted, watermark: str | None = "10 minutes", **choices: Any) -> Any:
    app = Pipeline("app")
    event_time = {} if watermark is None else {"event_time": "at", "watermark": watermark}
    app.source("signals", kafka("signals"), schema=SCHEMA, **event_time)
    app.source("others", kafka("others"), schema=SCHEMA)
    choices = {"into": console(), "mode": "update", **choices}
    app.table(name="result", unbounded_state=True, **choices)(body)
    return app


def filtered(signals: DataFrame) -> DataFrame:
    return counted(signals.where("n < 100").withColumn("extra", F.lit(1)))


def renamed(signals: DataFrame) -> DataFrame:
    return counted(signals).withColumnRenamed("count", "rows")


def summed(signals: DataFrame) -> DataFrame:
    return signals.groupBy("device", F.window("at", "1 minute")).agg(F.sum("n")).drop("window")


def other_column(signals: DataFrame) -> DataFrame:
    times = signals.withColumn("n", F.col("n") * 2).withColumn("m", F.col("n"))
    return times.groupBy("device", F.window("at", "1 minute")).agg(F.sum("m")).drop("window")


def by_number(signals: DataFrame) -> DataFrame:
    return signals.groupBy("n", F.window("at", "1 minute")).count().drop("window")


def longer(signals: DataFrame) -> DataFrame:
    return signals.groupBy("device", F.window("at", "5 minutes")).count().drop("window")


def stateless(signals: DataFrame) -> DataFrame:
    return signals.select("device", F.lit(1).alias("count"))


def both(signals: DataFrame, others: DataFrame) -> DataFrame:
    return counted(signals.unionByName(others))


def resumed(before: Any, after: Any) -> None:
    Harness(before).run(add("signals", ROWS), process(), restart(after), process())


@pytest.mark.parametrize("body", [counted, filtered, renamed])
def test_what_does_not_touch_the_state_resumes(body: Body) -> None:
    Harness(application()).run(
        add("signals", ROWS),
        process(),
        check_new("result", [("a", 1), ("b", 1)]),
        restart(application(body)),
        add("signals", [("a", "12:00:30", 5)]),
        process(),
        check_new("result", [("a", 2)]),
    )


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (counted, summed, "count(1)"),
        (summed, other_column, "sum(n)"),
        (counted, by_number, "by (string"),
        (counted, longer, "windows of 60000000 us"),
        (counted, stateless, "operators"),
        (counted, both, "now signals, others"),
    ],
    ids=["aggregate", "column", "key", "window", "no state", "sources"],
)
def test_what_changes_the_state_is_refused(before: Body, after: Body, found: str) -> None:
    with pytest.raises(CheckpointIncompatible) as refusal:
        resumed(application(before), application(after))
    assert found in str(refusal.value.found)
    assert refusal.value.next_command == "headwater run --fresh result"


def test_a_watermark_may_change_with_a_note_and_must_not_go() -> None:
    resumed(application(), application(watermark="5 minutes"))
    with pytest.raises(CheckpointIncompatible, match="has none now"):
        resumed(application(), application(watermark=None))
