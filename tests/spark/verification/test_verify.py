"""`verify` finds what is wrong on purpose, and nothing wrong with what is right."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.cli.app import Application, load_app
from headwater.connectors import queue
from headwater.errors import HeadwaterError
from headwater.testing import Harness
from headwater.verification import verify
from headwater.verification.report import as_html

WRONG = Path(__file__).parent / "wrong"
Load = Callable[..., Application]
WAIT_S = 300.0
"""A verification ends with the first problem; how soon is a figure of `bench verify`."""


@pytest.fixture
def wrong(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Application]:
    """A pipeline that is wrong on purpose, from a copy."""

    def load(name: str) -> Application:
        (tmp_path / f"{name}.py").write_text((WRONG / f"{name}.py").read_text())
        return load_app(str(tmp_path / f"{name}.py"))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return load


@pytest.mark.parametrize(
    ("name", "crashes", "law"),
    [
        ("appends_twice", True, "what the function stored is what it stores when"),
        ("remembers", False, "the stream's result is the batch's"),
        ("forgets", False, "the stream's result is that of a stream with all rows in one batch"),
        ("loses_rows", False, "at most 0 rows are late in the recorded order"),
        ("wall_clock", False, "column minute does not depend on current_timestamp()"),
    ],
)
def test_what_is_wrong_is_found(
    spark: SparkSession,
    wrong: Callable[[str], Application],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    crashes: bool,
    law: str,
) -> None:
    app = wrong(name)
    # How small a problem gets is not asked here.
    monkeypatch.setattr(sys.modules[verify.__module__], "SHRINK_S", 5.0)
    found = verify(
        app.pipeline, spark, crashes=crashes, seconds=WAIT_S, module=name, variable="app"
    )
    assert not found.holds
    if name == "appends_twice":
        assert found.test is not None
        assert fails(found.test, spark, table=found.problems[0].table)
    assert law in found.problems[0].law
    if name == "remembers":
        assert found.problems[0].differing == ["visit"]
        assert found.problems[0].python == ("visit",)


def test_a_broken_law_is_shrunk_to_a_test_that_fails(
    spark: SparkSession,
    wrong: Callable[[str], Application],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = wrong("per_batch")
    monkeypatch.setattr(sys.modules[verify.__module__], "SHRINK_S", WAIT_S)
    found = verify(app.pipeline, spark, seconds=WAIT_S, module="per_batch", variable="app")
    assert "what the function stored is what it stores when" in found.problems[0].law
    trial = found.problems[0].trial
    assert trial is not None
    assert trial.size == 2
    assert found.test is not None
    assert "from per_batch import app" in found.test
    assert fails(found.test, spark, table="totals")
    page = as_html("verify", found.facts(), found.problems, found.test)
    assert "in the batch only" in page
    assert "1e-09" in page


def test_the_written_test_fails_for_the_same_reason(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cut.py").write_text(CUT)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    app = load_app(str(tmp_path / "cut.py"))
    found = verify(app.pipeline, spark, seconds=WAIT_S, module="cut", variable="app")
    assert found.test is not None
    assert fails(found.test, spark, table="firsts")


def fails(text: str, spark: SparkSession, *, table: str) -> bool:
    """Whether a written test, run as it stands, finds the table wrong."""
    space: dict[str, Any] = {}
    exec(text, space)
    with pytest.raises(AssertionError, match=f"table {table} is not what was expected"):
        space[f"test_{table}_is_what_a_batch_gives"](
            lambda pipeline, **options: Harness(pipeline, spark=spark, **options)
        )
    return True


CUT = """
from headwater import Pipeline
from headwater.connectors import queue

app = Pipeline("cut")
app.source("numbers", queue([[(n,) for n in range(6)]]), schema="n int")


def first(parts):
    rows = [row for part in parts for row in part.n]
    import pandas as pd
    yield pd.DataFrame({"rows": [len(rows)]})


@app.table
def firsts(numbers):
    return numbers.coalesce(1).mapInPandas(first, "rows int").where("rows > 0")
"""


def right(mode: str) -> Pipeline:
    app = Pipeline("right")
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    rows = [(f"d{n % 3}", noon + dt.timedelta(minutes=n), n / 10) for n in range(20)]
    app.source(
        "signals",
        queue([rows]),
        schema="device string, at timestamp, celsius double",
        event_time="at",
        watermark="10 minutes",
    )

    @app.table(mode=mode, key=["device", "window"] if mode == "update" else ())
    def averages(signals: DataFrame) -> DataFrame:
        windows = signals.groupBy(F.window("at", "5 minutes"), "device")
        return windows.agg(F.avg("celsius").alias("celsius"))

    return app


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_what_is_right_holds_in_every_mode_with_crashes(spark: SparkSession, mode: str) -> None:
    found = verify(right(mode), spark, crashes=True, seconds=WAIT_S, trials=2)
    assert found.problems == []
    assert found.trials == 2


def test_random_columns_are_named(spark: SparkSession) -> None:
    app = Pipeline("dice")
    app.source("clicks", queue([[("a",), ("b",)]]), schema="user string")

    @app.table
    def rolled(clicks: DataFrame) -> DataFrame:
        return clicks.withColumn("roll", F.rand()).withColumn("twice", F.col("roll") * 2)

    laws = [p.law for p in verify(app, spark, seconds=5).problems]
    assert laws == [
        "column roll does not depend on rand()",
        "column twice does not depend on rand()",
    ]


def test_an_input_can_be_recorded_and_given_again(spark: SparkSession, tmp_path: Path) -> None:
    app = right("complete")
    verify(app, spark, seconds=5, trials=1, record_into=tmp_path)
    again = verify(app, spark, seconds=5, trials=1, rows={"signals": tmp_path / "signals.parquet"})
    assert again.rows == {"signals": 20}
    assert again.holds


def test_an_input_that_will_not_do_is_refused(spark: SparkSession) -> None:
    app = right("complete")
    with pytest.raises(HeadwaterError) as caught:
        verify(app, spark, limit=5)
    assert caught.value.code == "INPUT_TOO_LARGE"
    with pytest.raises(HeadwaterError) as caught:
        verify(app, spark, rows={"signal": []})
    assert caught.value.code == "UNKNOWN_SOURCE"
    empty = Pipeline("empty")
    empty.source("words", queue([[]]), schema="word string")
    empty.table(name="copy")(lambda words: words)
    with pytest.raises(HeadwaterError) as caught:
        verify(empty, spark)
    assert caught.value.code == "INPUT_EMPTY"


@pytest.mark.parametrize(
    "name",
    [
        "ads",
        "clickstream",
        "etl",
        "inactive",
        "one_function",
        pytest.param("web_log", marks=pytest.mark.matrix),
        "word_count",
    ],
)
def test_the_examples_hold(spark: SparkSession, example: Load, name: str) -> None:
    # All of them run over 20 seeds in `bench verify`, the largest only there with crashes.
    is_large = name == "web_log"
    trials = 1 if is_large or name in ("ads", "inactive") else 2
    # One of its clicks is late on purpose.
    late = 1 if name == "ads" else 0
    found = verify(
        example(name).pipeline,
        spark,
        crashes=not is_large,
        seconds=WAIT_S,
        trials=trials,
        late_budget=late,
    )
    assert [problem.lines() for problem in found.problems] == []


def test_a_trial_that_a_busy_machine_ended_is_run_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    fails_left = tmp_path / "left"

    def stumble(word):  # type: ignore[no-untyped-def]
        left = int(fails_left.read_text())
        if TaskContext.get().getLocalProperty("sql.streaming.queryId") and left:
            fails_left.write_text(str(left - 1))
            raise TimeoutError("Timed out while waiting for the Python worker to connect back")
        return word

    app = Pipeline("busy")
    app.source("words", queue([[("a",)]]), schema="word string")
    spoken = F.udf(stumble, "string")
    app.table(name="copy")(lambda words: words.coalesce(1).select(spoken("word").alias("word")))
    fails_left.write_text("2")
    assert verify(app, spark, trials=1).holds
    # A machine that is never free ends it all the same.
    fails_left.write_text("1000")
    found = verify(app, spark, trials=1)
    assert "the query does not fail (TimeoutError: Timed out" in found.problems[0].law


def order(number: int) -> dict[str, Any]:
    at = dt.datetime(2026, 1, 1, 12, 0, number, tzinfo=dt.UTC)
    return {"key": "k", "value": "v", "topic": "orders", "offset": number, "timestamp": at}


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("kafka", {"orders": [order(n) for n in range(4)]}),
        ("latency", {"pings": [{"key": "k", "value": str(n)} for n in range(4)]}),
    ],
)
def test_the_examples_over_kafka_hold_without_a_broker(
    spark: SparkSession, example: Load, name: str, rows: dict[str, Any]
) -> None:
    found = verify(example(name).pipeline, spark, rows=rows, crashes=True, seconds=WAIT_S, trials=1)
    assert [problem.lines() for problem in found.problems] == []


def test_the_guard_against_clocks_that_are_ahead_is_no_dependence_on_the_clock(
    spark: SparkSession,
) -> None:
    app = Pipeline("guarded")
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    app.source(
        "rows",
        queue([[(1, noon)]]),
        schema="id int, at timestamp",
        event_time="at",
        watermark="1 minute",
        max_ahead="1 minute",
    )
    app.table(name="copy")(lambda rows: rows)
    assert verify(app, spark, trials=1).holds
