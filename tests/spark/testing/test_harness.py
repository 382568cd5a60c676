"""The test kit, tested with itself: every word, and what it says when a check does not hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import csv, foreach_batch, json, kafka, parquet
from headwater.errors import CheckFailed, HeadwaterError
from headwater.testing import (
    Harness,
    add,
    advance,
    advance_event_time,
    check,
    check_new,
    check_progress,
    check_rejected,
    check_state,
    check_watermark,
    crash,
    expect_failure,
    process,
    raw,
    restart,
    run_all,
    stop,
)

Make = Callable[..., Harness]
SCHEMA = "device string, at timestamp, celsius double"


def minutes_of(signals: DataFrame) -> DataFrame:
    return (
        signals.groupBy(F.window("at", "1 minute"), "device")
        .agg(F.avg("celsius").alias("celsius"))
        .select("device", F.col("window.start").alias("minute"), "celsius")
    )


def pipeline(**table: Any) -> Pipeline:
    app = Pipeline("iot")
    app.source("signals", kafka("signals"), schema=SCHEMA, event_time="at", watermark="10 minutes")
    options = {"key": ["device", "minute"], "mode": "update", **table}
    app.table(name="device_minutes", **options)(minutes_of)
    return app


def code_of(script: Callable[[], object]) -> str:
    with pytest.raises(HeadwaterError) as caught:
        script()
    return caught.value.code


def test_a_window_is_closed_by_event_time_and_survives_a_crash(harness: Make) -> None:
    harness(pipeline()).run(
        add("signals", [("dev1", "12:00:05", 20.0)]),
        process(),
        check("device_minutes", [("dev1", "12:00:00", 20.0)]),
        advance_event_time("signals", "12:12:00"),
        check_watermark("device_minutes", "12:02:00"),
        add("signals", [("dev1", "12:00:07", 30.0), ("dev1", "12:05:00", 5.0)]),
        process(),
        check("device_minutes", [("dev1", "12:00:00", 20.0), ("dev1", "12:05:00", 5.0)]),
        crash("after_sink"),
        restart(),
        process(),
        check("device_minutes", [("dev1", "12:00:00", 20.0), ("dev1", "12:05:00", 5.0)]),
    )


def test_the_last_row_of_a_key_is_the_one_by_its_order(harness: Make) -> None:
    app = Pipeline("iot")
    app.source("signals", kafka("signals"), schema=SCHEMA, event_time="at")
    app.sql("latest", "SELECT device, celsius, at FROM signals", key="device", order_by="at")
    harness(app).run(
        add("signals", [("a", "12:00:05", 20.0), ("a", "12:00:04", 30.0)]),
        add("signals", [("a", "12:00:03", 10.0)]),
        process(),
        check("latest", [("a", 20.0, "12:00:05")]),
    )


def test_event_time_moves_without_a_row_in_any_result(harness: Make) -> None:
    harness(pipeline(mode="append")).run(
        add("signals", [("a", "12:00:05", 20.0), ("a", "12:00:15", 22.0)]),
        process(),
        check("device_minutes", []),
        check_state("device_minutes", 1),
        advance_event_time("signals", "12:11:00"),
        check("device_minutes", [("a", "12:00:00", 21.0)]),
        check_state("device_minutes", 0),
    )


def test_a_batch_that_died_before_the_sink_is_written_once(harness: Make) -> None:
    harness(pipeline(mode="append")).run(
        add("signals", [("a", "12:00:05", 20.0)]),
        process(),
        add("signals", [("a", "12:00:15", 22.0), ("b", "12:30:00", 1.0)]),
        crash("before_sink"),
        restart(),
        process(),
        check("device_minutes", [("a", "12:00:00", 21.0)]),
    )


def test_a_stopped_pipeline_goes_on_where_it_was(harness: Make) -> None:
    harness(pipeline()).run(
        add("signals", [("a", "12:00:05", 20.0)]),
        process(),
        stop(),
        add("signals", [("a", "12:00:06", 40.0)]),
        restart(),
        process(),
        check_new("device_minutes", [("a", "12:00:00", 20.0), ("a", "12:00:00", 30.0)]),
        add("signals", [("b", "12:00:06", 1.0)]),
        process(),
        check_new("device_minutes", [("b", "12:00:00", 1.0)]),
    )


def test_a_restart_may_bring_another_definition(harness: Make) -> None:
    warmer = Pipeline("iot")
    warmer.source(
        "signals", kafka("signals"), schema=SCHEMA, event_time="at", watermark="10 minutes"
    )

    @warmer.table(key=["device", "minute"], mode="update")
    def device_minutes(signals: DataFrame) -> DataFrame:
        return minutes_of(signals).withColumn("celsius", F.col("celsius") + 1)

    harness(pipeline()).run(
        add("signals", [("a", "12:00:05", 20.0)]),
        process(),
        restart(warmer),
        add("signals", [("b", "12:00:05", 20.0)]),
        process(),
        check("device_minutes", [("a", "12:00:00", 20.0), ("b", "12:00:00", 21.0)]),
    )


def test_the_clock_fires_processing_time_triggers(harness: Make) -> None:
    harness(pipeline(trigger="10 seconds")).run(
        add("signals", [("a", "12:00:05", 20.0)]),
        process(),
        add("signals", [("a", "12:00:06", 40.0)]),
        advance("3 seconds"),
        check("device_minutes", [("a", "12:00:00", 20.0)]),
        advance("10 seconds"),
        check("device_minutes", [("a", "12:00:00", 30.0)]),
    )


def test_the_batch_timestamp_is_the_clocks(harness: Make) -> None:
    app = Pipeline("stamped")
    app.source("words", kafka("words"), schema="word string, at timestamp", event_time="at")

    @app.table(trigger="1 minute")
    def stamped(words: DataFrame) -> DataFrame:
        return words.select("word", F.current_timestamp().alias("seen"))

    harness(app).run(
        add("words", [("a", "12:00:30")]),
        process(),
        check("stamped", [("a", "12:00:30")]),
        add("words", [("b", "12:00:31")]),
        advance("1 minute"),
        check("stamped", [("a", "12:00:30"), ("b", "12:02:00")]),
    )


def test_rows_come_in_many_forms(harness: Make, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"device": "c", "at": "12:00:03", "celsius": 3}\n')
    (tmp_path / "rows.csv").write_text("device,at,celsius\nd,2026-01-01T12:00:04,4\n")
    app = Pipeline("forms")
    app.source("signals", json("nowhere"), schema=SCHEMA)
    app.table(name="copy")(lambda signals: signals)
    harness(app).run(
        add("signals", [("a", "12:00:01", 1)]),
        add("signals", [{"device": "b", "at": "12:00:02"}]),
        add("signals", tmp_path / "rows.json"),
        add("signals", tmp_path / "rows.csv"),
        add(
            "signals",
            """
            | device | at       | celsius |
            |--------|----------|---------|
            | e      | 12:00:05 | 5.5     |
            """,
        ),
        process(),
        check(
            "copy",
            """
            device | at       | celsius
            a      | 12:00:01 | 1.0
            b      | 12:00:02 | null
            c      | 12:00:03 | 3
            d      | 12:00:04 | 4
            e      | 12:00:05 | 5.5
            """,
            ordered=True,
        ),
        check("copy", [{"device": "a"}, {"device": "e"}], contains=True),
        check("copy", [("a",), ("b",), ("c",), ("d",), ("e",)], columns=["device"]),
        check_progress("copy", {"numInputRows": 5}),
    )


def test_records_that_do_not_parse_are_rejected_as_in_production(harness: Make) -> None:
    harness(pipeline()).run(
        add("signals", [raw('{"device": "a", "at": "2026-01-01T12:00:05Z", "celsius": 20}')]),
        add("signals", [raw('{"device": "a", "at": "soon"}'), raw("{")]),
        process(),
        check("device_minutes", [("a", "12:00:00", 20.0)]),
        check_rejected("signals", [{"raw": '{"device": "a", "at": "soon"}'}, {"raw": "{"}]),
    )


def test_lookups_are_rows_and_a_table_that_is_read_stays(harness: Make) -> None:
    app = Pipeline("enriched")
    app.source("clicks", kafka("clicks"), schema="user string, n int")
    app.lookup("users", csv("nowhere.csv"), schema="user string, country string")

    @app.table
    def known(clicks: DataFrame, users: DataFrame) -> DataFrame:
        return clicks.join(users, "user", "left")

    @app.table(mode="complete", unbounded_state=True)
    def by_country(known: DataFrame) -> DataFrame:
        return known.groupBy("country").agg(F.sum("n").alias("n"))

    harness(app, lookups={"users": [("ann", "CH"), ("bob", "DE")]}).run(
        add("clicks", [("ann", 1), ("bob", 2), ("eve", 3), ("ann", 4)]),
        process(),
        check("known", [("ann", 1, "CH"), ("bob", 2, "DE"), ("eve", 3, None), ("ann", 4, "CH")]),
        check("by_country", [("CH", 5), ("DE", 2), (None, 3)]),
    )


def test_a_sink_can_stay_real(harness: Make, tmp_path: Path) -> None:
    app = Pipeline("real")
    app.source("words", kafka("words"), schema="word string")
    app.table(name="files", into=parquet(str(tmp_path / "out")))(lambda words: words)
    seen: list[int] = []
    app.table(name="seen", into=foreach_batch(lambda frame, batch: seen.append(batch)))(
        lambda words: words
    )
    harness(app, keep=["files", "seen"]).run(
        add("words", [("a",)]),
        process(),
        crash("after_sink"),
        restart(),
        process(),
        check("files", [("a",)]),
    )
    assert seen == [0, 0]


def test_a_failure_is_expected_by_its_code(harness: Make) -> None:
    app = Pipeline("failing")
    app.source("numbers", kafka("numbers"), schema="n int")
    app.table(name="inverse")(lambda numbers: numbers.select(F.expr("1 DIV n").alias("i")))
    harness(app).run(
        add("numbers", [(1,)]),
        process(),
        add("numbers", [(0,)]),
        expect_failure("QUERY_FAILED", contains="DIVIDE_BY_ZERO"),
    )
    script = [add("numbers", [(1,)]), expect_failure("QUERY_FAILED")]
    assert code_of(lambda: harness(app).run(*script)) == "CHECK_FAILED"


def test_one_script_in_every_mode_and_under_every_trigger(harness: Make) -> None:
    script = [
        add("signals", [("a", "12:00:05", 20.0)]),
        process(),
        add("signals", [("a", "12:00:06", 40.0)]),
        advance_event_time("signals", "12:30:00"),
        check("device_minutes", [("a", "12:00:00", 30.0)]),
    ]
    app = pipeline()
    assert harness(app).run_in_every_mode("device_minutes", *script) == [
        "append",
        "update",
        "complete",
    ]
    assert harness(app).run_with_every_trigger(*script) == [
        "default",
        "processing time",
        "once",
        "available now",
    ]


def test_many_tests_run_at_once(harness: Make) -> None:
    app = pipeline()

    def script(celsius: float, expected: float) -> Callable[[], None]:
        return lambda: harness(app).run(
            add("signals", [("a", "12:00:05", celsius)]),
            process(),
            check("device_minutes", [("a", "12:00:00", expected)]),
        )

    run_all({f"{n}": script(n, n) for n in range(4)}, threads=3)
    with pytest.raises(AssertionError, match="1 of the tests failed: wrong"):
        run_all({"right": script(1, 1), "wrong": script(1, 2)})


def test_a_failing_check_shows_script_difference_and_watermark(harness: Make) -> None:
    with pytest.raises(CheckFailed) as caught:
        harness(pipeline()).run(
            add("signals", [("dev1", "12:00:05", 20.0)]),
            process(),
            advance_event_time("signals", "12:12:00"),
            check("device_minutes", [("dev1", "12:00:00", 21.0)]),
            stop(),
        )
    told = str(caught.value)
    assert "- dev1 | 12:00:00 | 21.0" in told
    assert "+ dev1 | 12:00:00 | 20.0" in told
    assert ">  4  check('device_minutes', [('dev1', '12:00:00', 21.0)])" in told
    assert "   5  stop()" in told
    assert "watermark 2026-01-01T12:02:00" in told


@pytest.mark.parametrize(
    ("actions", "code", "told"),
    [
        ([check("device_minute", [])], "UNKNOWN_TABLE", "device_minutes"),
        ([add("signal", [])], "UNKNOWN_SOURCE", "did you mean 'signals'?"),
        (
            [add("signals", [("a", "12:00:00", 1), ("a", "12:00:00", "warm")])],
            "ROW_MISFIT",
            "row 2, column celsius",
        ),
        ([add("signals", [("a", "12:00:00")])], "ROW_MISFIT", "row 1"),
        ([add("signals", [{"devise": "a"}])], "ROW_MISFIT", "column devise"),
        (
            [
                advance_event_time("signals", "12:00:00"),
                advance_event_time("signals", "11:59:00"),
            ],
            "EVENT_TIME_BACKWARDS",
            "11:59:00",
        ),
        ([crash("after_sink")], "CRASH_POINT_UNREACHED", "written no batch"),
        (
            [add("signals", [("a", "12:00:00", 1)]), process(), crash("before_sink")],
            "CRASH_POINT_UNREACHED",
            "nothing to process",
        ),
    ],
)
def test_a_wrong_script_is_told_so(harness: Make, actions: list[Any], code: str, told: str) -> None:
    with pytest.raises(HeadwaterError) as caught:
        harness(pipeline()).run(*actions)
    assert caught.value.code == code
    assert told in str(caught.value)


def test_a_pipeline_that_cannot_be_tested_is_told_so(harness: Make) -> None:
    empty = Pipeline("empty")
    assert code_of(lambda: harness(empty).run()) == "NO_SOURCE"
    app = pipeline()
    assert code_of(lambda: harness(app, lookups={"sites": []}).run()) == "UNKNOWN_LOOKUP"
    fixed = Pipeline("fixed")
    fixed.source("words", kafka("words"), schema="word string")
    fixed.table(name="copy")(lambda words: words)
    move = advance_event_time("words", "12:00:00")
    assert code_of(lambda: harness(fixed).run(move)) == "EVENT_TIME_FIXED"
    assert code_of(lambda: harness(fixed, trigger="continuous 1 second").run(process())) in (
        "TRIGGER_IMPOSSIBLE",
        "TRIGGER_NOT_TESTABLE",
    )
    assert code_of(lambda: crash("in the middle")) == "UNKNOWN_CHOICE"
