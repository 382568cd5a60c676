"""Late rows: the same in every output mode, kept exactly once."""

from __future__ import annotations

import datetime as dt
import json as jsonlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json, kafka, parquet, queue
from headwater.events import Event, LateCaptured, LateCount
from headwater.jvm.telling import Ear
from headwater.runtime.merging import Merged, merge_late
from headwater.settings import load
from headwater.testing import (
    Harness,
    add,
    advance_event_time,
    check,
    check_late,
    check_rejected,
    check_watermark,
    crash,
    process,
    restart,
)
from headwater.testing.actions import Memory
from headwater.testing.harness import session
from headwater.testing.scene import Scene

SCHEMA = "device string, at timestamp, celsius double"


def pipeline(
    body: Callable[[DataFrame], DataFrame],
    *,
    watermark: str = "10 minutes",
    max_ahead: str | None = None,
    **table: object,
) -> Pipeline:
    app = Pipeline("late")
    app.source(
        "signals",
        kafka("signals"),
        schema=SCHEMA,
        event_time="at",
        watermark=watermark,
        max_ahead=max_ahead,
    )
    app.table(name="result", reads={body.__code__.co_varnames[0]: "signals"}, **table)(body)
    return app


def counts(signals: DataFrame) -> DataFrame:
    return (
        signals.groupBy(F.window("at", "1 minute"), "device")
        .count()
        .select("device", F.col("window.start").alias("minute"), "count")
    )


@pytest.mark.parametrize(
    "mode", ["append", pytest.param("update", marks=pytest.mark.matrix), "complete"]
)
def test_a_late_row_is_kept_aside_in_every_mode(mode: str) -> None:
    app = pipeline(counts, key=["device", "minute"], mode=mode)
    Harness(app).run(
        add("signals", [("dev1", "12:00:05", 20.0)]),
        process(),
        advance_event_time("signals", "12:12:00"),
        add(
            "signals",
            [("dev1", "12:00:07", 21.0), ("dev1", "12:01:59", 1.0), ("dev1", "12:02:00", 1.0)],
        ),
        process(),
        check_late("result", [("dev1", "12:00:07", 21.0), ("dev1", "12:01:59", 1.0)]),
        check_late(
            "result",
            [
                {
                    "device": "dev1",
                    "window": {"start": "12:00:00", "end": "12:01:00"},
                    "watermark": "12:02:00",
                },
                {
                    "device": "dev1",
                    "window": {"start": "12:01:00", "end": "12:02:00"},
                    "watermark": "12:02:00",
                },
            ],
        ),
        crash("after_sink"),
        restart(),
        process(),
        advance_event_time("signals", "13:00:00"),
        check("result", [("dev1", "12:00:00", 1), ("dev1", "12:02:00", 1)]),
        check_late("result", [("dev1", "12:00:07", 21.0), ("dev1", "12:01:59", 1.0)]),
    )


def sliding(signals: DataFrame) -> DataFrame:
    windows = F.window("at", "10 minutes", "5 minutes")
    counted = signals.groupBy(windows, "device").count()
    return counted.select("device", F.col("window.start").alias("start"), "count")


def test_one_row_per_missed_window_and_one_count_per_row() -> None:
    seen: list[Event] = []

    class Listening(Scene):
        def _heard(self, event: Event) -> None:
            seen.append(event)
            super()._heard(event)

    app = pipeline(sliding, key=["device", "start"])
    scene = Listening(app, session(app))
    try:
        scene.tape("signals").add([("dev1", "12:21:00", 1.0)])
        scene.process()
        # Watermark 12:11: 12:04 misses two windows, 12:08 one of two, 12:17 none.
        scene.tape("signals").add(
            [("dev1", "12:04:00", 1.0), ("dev1", "12:08:00", 1.0), ("dev1", "12:17:00", 1.0)]
        )
        scene.process()
        assert len(scene.content("result__late").rows) == 3
        assert scene.late_count("result") == LateCount(
            rows=4, out_of_order=1, late=2, late_windows=3
        )
    finally:
        scene.close()
    assert [e.rows for e in seen if isinstance(e, LateCaptured)] == [3]


@pytest.mark.parametrize("policy", ["capture", "drop"])
def test_late_rows_are_counted_whatever_becomes_of_them(policy: str) -> None:
    app = pipeline(counts, key=["device", "minute"], late=policy)
    scene = Scene(app, session(app))
    try:
        for at in ("12:30:00", "12:01:00", "12:25:00"):
            scene.tape("signals").add([("dev1", at, 1.0)])
            scene.process()
        assert scene.late_count("result") == LateCount(3, out_of_order=1, late=1, late_windows=1)
        assert len(scene.content("result__late").rows) == (1 if policy == "capture" else 0)
    finally:
        scene.close()


SCRIPT = [
    add("signals", [("dev1", "12:30:00", 0.0)]),
    process(),
    add(
        "signals", [("dev1", "12:01:00", 1.0), ("dev2", "12:01:10", 2.0), ("dev2", "12:29:00", 3.0)]
    ),
    process(),
    advance_event_time("signals", "14:00:00"),
]
LATE = [("dev1", "12:01:00", 1.0), ("dev2", "12:01:10", 2.0)]


def test_more_late_rows_than_a_progress_carries_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.jvm.telling.TOLD_BYTES", 1)
    Harness(pipeline(counts)).run(*SCRIPT, check_late("result", LATE))


def test_thousands_of_late_rows_are_told_and_nothing_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the batch was read again")

    monkeypatch.setattr("headwater.runtime.replay.Replay.rows", refuse)
    late = [(f"dev{number}", "12:01:00", 1.0) for number in range(12_000)]
    Harness(pipeline(counts)).run(
        add("signals", [("dev1", "12:30:00", 0.0)]),
        process(),
        add("signals", late),
        process(),
        check_late("result", late),
    )


def test_late_rows_that_a_crash_left_undecided_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        # The run forgets what it heard, as a killed driver would.
        patch.setattr("headwater.runtime.sides.SideTables.decide", lambda *_: None)
        patch.setattr("headwater.runtime.sides.SideTables.close", lambda *_: None)
        app = pipeline(counts)
        scene = Scene(app, session(app))
        try:
            memory = Memory()
            for action in SCRIPT:
                action.perform(scene, memory)
            scene.kill()
            assert scene.content("result__late").rows == []
            patch.undo()
            scene.restart()
            check_late("result", LATE).perform(scene, memory)
            scene.restart()
            check_late("result", LATE).perform(scene, memory)
        finally:
            scene.close()


def sessions(signals: DataFrame) -> DataFrame:
    gaps = F.session_window("at", "10 minutes")
    counted = signals.groupBy(gaps, "device").count()
    return counted.select(
        "device",
        F.col("session_window.start").alias("first"),
        F.col("session_window.end").alias("end"),
        "count",
    )


def test_a_batch_that_the_sink_has_already_tells_what_was_late_and_rejected(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Spark's file sink leaves it out when it comes again: then its query sees no row of it."""
    app = Pipeline("app", settings=load(tmp_path))
    app.source("signals", json("in"), schema=SCHEMA, event_time="at", watermark="10 minutes")
    app.table(name="result", into=parquet("out"), mode="append")(lambda signals: counts(signals))

    def arrive(number: int, *lines: str) -> None:
        (tmp_path / "draft").write_text("".join(f"{line}\n" for line in lines))
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "draft").rename(tmp_path / "in" / f"{number}.json")
        app.refresh()

    def signal(minute: str) -> str:
        return jsonlib.dumps({"device": "a", "at": f"2026-01-01T{minute}:00Z", "celsius": 1.0})

    arrive(0, signal("12:00"))
    arrive(1, signal("13:00"))
    storage, before = tmp_path / ".headwater/app", tmp_path / "before"
    shutil.copytree(storage, before)
    arrive(2, signal("12:01"), "no json")
    # The crash came before the commit, and before anything beside the sink was written.
    checkpoint = Path("checkpoints/result")
    newest = max(int(path.name) for path in (storage / checkpoint / "commits").glob("[0-9]*"))
    (storage / checkpoint / "commits" / str(newest)).unlink()
    for place in (Path("tables"), checkpoint / "headwater"):
        shutil.rmtree(storage / place, ignore_errors=True)
        if (before / place).exists():
            shutil.copytree(before / place, storage / place)
    app.refresh()
    for table in ("result__late", "signals__rejected"):
        assert spark.read.format("delta").load(str(storage / "tables" / table)).count() == 1, table


def test_a_row_behind_the_watermark_makes_no_second_session() -> None:
    Harness(pipeline(sessions)).run(
        add("signals", [("dev1", "12:05:00", 1.0)]),
        process(),
        advance_event_time("signals", "12:26:00"),
        # The session 12:05 to 12:15 is closed; Spark alone would open one from 12:14 to 12:24.
        add("signals", [("dev1", "12:14:00", 1.0), ("dev1", "12:17:00", 1.0)]),
        process(),
        advance_event_time("signals", "14:00:00"),
        check("result", [("dev1", "12:05:00", "12:15:00", 1), ("dev1", "12:17:00", "12:27:00", 1)]),
        check_late("result", [("dev1", "12:14:00", 1.0)]),
    )


def first_of_each(signals: DataFrame) -> DataFrame:
    return signals.dropDuplicatesWithinWatermark(["device"]).select("device", "celsius")


def test_deduplication_keeps_late_rows_aside() -> None:
    Harness(pipeline(first_of_each)).run(
        add("signals", [("dev1", "12:30:00", 1.0)]),
        process(),
        add("signals", [("dev2", "12:20:00", 2.0), ("dev3", "12:20:01", 3.0)]),
        process(),
        check("result", [("dev1", 1.0), ("dev3", 3.0)]),
        check_late("result", [("dev2", "12:20:00", 2.0)]),
        check_late("result", [{"device": "dev2", "window": None, "watermark": "12:20:00"}]),
    )


def chained(signals: DataFrame) -> DataFrame:
    minutes = signals.groupBy(F.window("at", "1 minute"), "device").count()
    hours = minutes.groupBy(F.window("window", "1 hour")).agg(F.sum("count").alias("rows"))
    return hours.select(F.col("window.start").alias("hour"), "rows")


def test_chained_aggregations_find_late_rows_at_the_first() -> None:
    Harness(pipeline(chained)).run(
        *SCRIPT, check("result", [("12:00:00", 2)]), check_late("result", LATE)
    )


def test_no_row_of_a_source_that_keeps_order_is_behind() -> None:
    Harness(pipeline(counts, watermark="perfect")).run(
        add("signals", [("dev1", "12:00:30", 1.0)]),
        process(),
        add("signals", [("dev1", "12:00:30", 2.0), ("dev1", "12:00:20", 3.0)]),
        process(),
        # Its window is open, but the promise is broken.
        check_late("result", [("dev1", "12:00:20", 3.0)]),
        advance_event_time("signals", "12:05:00"),
        check("result", [("dev1", "12:00:00", 2)]),
    )


def test_a_clock_that_is_ahead_does_not_move_the_watermark() -> None:
    app = pipeline(counts, max_ahead="5 minutes")
    Harness(app).run(
        add("signals", [("dev1", "12:00:00", 1.0), ("dev9", "19:00:00", 1.0), ("dev1", None, 1.0)]),
        process(),
        add("signals", [("dev1", "11:59:30", 1.0)]),
        process(),
        check_watermark("result", "11:50:00"),
        check_late("result", []),
        check_rejected(
            "signals",
            [
                {
                    "reason": "event time at: 2026-01-01 19:00:00 is after 2026-01-01 12:05:00, "
                    "the latest that max_ahead allows"
                },
                {"reason": "event time at: null"},
            ],
        ),
    )


def test_a_batch_run_leaves_no_row_late(tmp_path: Path) -> None:
    rows = [[("dev1", "2026-01-01T12:30:00Z", 0.0)], [("dev1", "2026-01-01T12:01:00Z", 1.0)]]
    batches = [
        [(device, dt.datetime.fromisoformat(at), value) for device, at, value in batch]
        for batch in rows
    ]
    app = Pipeline("late", settings=load(tmp_path))
    app.source("signals", queue(batches), schema=SCHEMA, event_time="at", watermark="10 minutes")
    app.table(name="result", key=["device", "minute"])(counts)
    tables = tmp_path / ".headwater/late/tables"
    app.refresh()
    assert (tables / "result__late").is_dir()
    app.replace(replaces_streams=True)
    assert not (tables / "result__late").exists()
    assert app.plan(for_batch=True).spark.read.format("delta").load(f"{tables}/result").count() == 2


def test_merged_rows_count_and_are_late_no_longer(tmp_path: Path) -> None:
    batches = [
        [("dev1", dt.datetime(2026, 1, 1, 12, minute, tzinfo=dt.UTC), 0.0)] for minute in (1, 30, 1)
    ]
    app = Pipeline("merged", settings=load(tmp_path))
    app.source("signals", queue(batches), schema=SCHEMA, event_time="at", watermark="10 minutes")
    app.table(name="result", key=["device", "minute"], mode="update")(counts)
    app.refresh()
    plan = app.plan()
    done = merge_late(plan.spark, plan.graph, app.settings, plan.queries[0])
    assert done == Merged("result", late_rows=1, windows=1, rows=1)
    table = plan.spark.read.format("delta").load(f"{tmp_path}/.headwater/merged/tables/result")
    assert sorted(row["count"] for row in table.collect()) == [1, 2]
    assert merge_late(plan.spark, plan.graph, app.settings, plan.queries[0]) is None


def test_a_policy_that_is_new_to_a_checkpoint_begins_with_the_next_batch() -> None:
    dropping, keeping = pipeline(counts, late="drop"), pipeline(counts)
    Harness(dropping).run(
        *SCRIPT,
        restart(keeping),
        process(),
        check_late("result", []),
        add("signals", [("dev3", "12:01:00", 4.0)]),
        process(),
        check_late("result", [("dev3", "12:01:00", 4.0)]),
    )


def test_what_a_task_tells_twice_is_heard_once() -> None:
    app = pipeline(counts)
    ear = Ear(session(app))
    for text in ('{"b":3,"i":1,"w":1,"r":"{}"}',) * 2:
        ear._java.add(text)
    assert ear.heard(3).weight == 1
    assert ear.heard(3).weight == 0
