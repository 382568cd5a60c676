"""What is compiled for one batch serves the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json
from headwater.connectors.records import RecordFormat, RecordParser
from headwater.runtime import frames
from headwater.testing import Harness, add, advance, process
from headwater.testing.actions import Action, Memory
from headwater.testing.scene import Scene

SCHEMA = "device string, at timestamp, celsius double"


def compiled_by_later_batches(spark: SparkSession, harness: Callable[..., Harness]) -> int:
    app = Pipeline("app")
    app.source(
        "signals",
        json("in"),
        schema=SCHEMA,
        event_time="at",
        watermark="1 minute",
        max_ahead="5 minutes",
    )
    app.table(name="kept")(lambda signals: signals)
    counted = Counted([])

    def batch(number: int) -> list[Action]:
        rows = add("signals", [("a", f"12:00:0{number}", 20.0)])
        return [rows, process(), advance("1 second"), counted]

    harness(app).run(*(action for number in range(4) for action in batch(number)))
    return counted.counts[-1] - counted.counts[1]


@dataclass(frozen=True, slots=True)
class Counted(Action):
    """Notes how many pieces of code Spark has compiled so far."""

    counts: list[int]

    def perform(self, scene: Scene, memory: Memory) -> None:
        self.counts.append(_compiled(scene.spark))


def _compiled(spark: SparkSession) -> int:
    metrics = getattr(spark._jvm, "org.apache.spark.metrics.source.CodegenMetrics")
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def test_a_batch_finds_its_code_compiled(
    spark: SparkSession, harness: Callable[..., Harness]
) -> None:
    assert compiled_by_later_batches(spark, harness) == 0


def test_a_time_that_is_written_into_the_code_is_compiled_anew(
    spark: SparkSession, harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = frames._judged
    monkeypatch.setattr(frames, "_judged", lambda frame, source, now_ms=None: judged(frame, source))
    assert compiled_by_later_batches(spark, harness) > 0


def test_only_rejected_records_are_asked_for_their_reason(spark: SparkSession) -> None:
    parser = RecordParser(RecordFormat.JSON, SCHEMA, "at")
    texts = ['{"device": "a", "at": "2026-01-01T12:00:00Z"}', "not json", '{"celsius": "warm"}']
    records: DataFrame = spark.createDataFrame([(text,) for text in texts], "value string")
    rejected = parser.rejected(records, F.col("value"))
    assert [row["value"] for row in rejected.collect()] == texts[1:]
    plan = str(rejected._jdf.queryExecution().optimizedPlan())
    filters = [line for line in plan.splitlines() if "Filter" in line]
    assert filters
    assert not any("from_json" in line for line in filters)
