"""What is refused before a start, and odd times that are let in or kept aside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import console, kafka, parquet, socket
from headwater.connectors.interface import Connector
from headwater.errors import (
    DelayZero,
    FunctionFailed,
    LatePolicyImpossible,
    ModeImpossible,
    UnboundedState,
    WatermarkTooShort,
)
from headwater.planning.render import as_text
from headwater.testing import Harness, add, advance_event_time, check, check_late, process
from headwater.testing.harness import session
from headwater.testing.scene import Scene

Body = Callable[[DataFrame], DataFrame]


def app_of(
    body: Body,
    *,
    connector: Connector | None = None,
    watermark: str | None = "10 minutes",
    **table: Any,
) -> Pipeline:
    app = Pipeline("odd")
    app.source(
        "rows",
        connector or kafka("rows"),
        schema="key string, at timestamp, value double",
        event_time="at",
        watermark=watermark,
    )
    app.table(name="result", reads={"rows": "rows"}, **table)(body)
    return app


def windows(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("at", "1 minute"), "key").count()


def per_key(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").count()


def first(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["key", "at"])


def maximum(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("at", "1 minute"), "key").agg(F.max("value").alias("most"))


def without_time(rows: DataFrame) -> DataFrame:
    return rows.select("key").groupBy("key").count()


def counted(*window: str) -> Body:
    return lambda rows: rows.groupBy(F.window("at", *window)).count()


def of_no_column(rows: DataFrame) -> DataFrame:
    return rows.select("key").groupBy(F.window("at", "1 minute")).count()


NO_POLICY = LatePolicyImpossible
REFUSED: list[tuple[type[Exception], str, Body, dict[str, Any]]] = [
    (UnboundedState, "aggregation", per_key, {"key": "key", "mode": "update"}),
    (UnboundedState, "aggregation", per_key, {"mode": "complete"}),
    (UnboundedState, "aggregation", without_time, {"key": "key", "mode": "update"}),
    (ModeImpossible, "watermark", per_key, {"mode": "append"}),
    (WatermarkTooShort, "1 second", windows, {"watermark": "1 second", "trigger": "1 minute"}),
    (DelayZero, "deduplication", first, {"watermark": "0 seconds"}),
    (NO_POLICY, "no row can be late", per_key, {"late": "capture", "mode": "complete"}),
    (NO_POLICY, "only what is new", maximum, {"late": "refire 1 hour discarding"}),
    (NO_POLICY, "no windows", first, {"late": "allow 1 hour"}),
    (NO_POLICY, "Spark's own", windows, {"late": "allow 1 hour", "into": parquet("out")}),
    (FunctionFailed, "slide", counted("1 minute", "2 minutes"), {}),
    (FunctionFailed, "window", counted("0 seconds"), {}),
    (FunctionFailed, "at", of_no_column, {}),
]


@pytest.mark.parametrize(("problem", "says", "body", "arguments"), REFUSED)
def test_what_cannot_be_right_is_refused_before_it_starts(
    problem: type[Exception], says: str, body: Body, arguments: dict[str, Any]
) -> None:
    with pytest.raises(problem) as refused:
        app_of(body, **arguments).plan()
    assert says in str(refused.value)


def lines(rows: DataFrame) -> DataFrame:
    stamped = rows.select(F.current_timestamp().alias("at"), "value")
    return stamped.withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute")).count()


def test_a_source_that_cannot_be_read_again_drops_and_says_so() -> None:
    app = Pipeline("lines")
    app.source("rows", socket("127.0.0.1", 9), schema="value string")
    app.table(name="result", reads={"rows": "rows"}, into=console())(lines)
    assert "drop: dropped and counted (source rows cannot be read again" in as_text(app.plan())
    kept = Pipeline("kept")
    kept.include(app)
    kept.table(name="again", reads={"rows": "rows"}, late="capture", into=console())(lines)
    with pytest.raises(LatePolicyImpossible, match="cannot be read again"):
        kept.plan()


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_state_without_a_bound_may_be_meant(mode: str) -> None:
    assert app_of(per_key, key="key", mode=mode, unbounded_state=True).plan().queries


def test_the_plan_tells_watermarks_guards_and_policies() -> None:
    text = as_text(app_of(windows).plan())
    assert (
        "capture: captured, one row per missed window (the default: kept in result__late)" in text
    )
    assert "source rows: watermark 10 minutes; rows more than 1 day ahead" in text


def test_a_row_before_1970_is_late_and_one_of_2300_is_a_row() -> None:
    Harness(app_of(windows)).run(
        add("rows", [("old", "1969-12-31 23:00:00", 1.0), ("far", "2300-01-01 00:00:30", 1.0)]),
        process(),
        advance_event_time("rows", "2300-01-01 01:00:00"),
        check_late("result", [("old", "1969-12-31 23:00:00", 1.0)]),
        check("result", [{"key": "far", "count": 1}]),
    )


def test_late_rows_that_refire_are_counted_apart() -> None:
    app = app_of(windows, late="refire 1 hour")
    scene = Scene(app, session(app))
    try:
        for at in ("12:30:00", "12:25:00", "12:01:00", "11:00:00"):
            scene.tape("rows").add([("a", at, 1.0)])
            scene.process()
        count = scene.late_count("result")
        assert (count.rows, count.out_of_order, count.refired, count.late) == (4, 1, 1, 1)
    finally:
        scene.close()
