"""Windows that fire early, on time and again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Late, Pipeline
from headwater.cli.status import run_lines
from headwater.connectors import kafka, queue
from headwater.errors import LatePolicyImpossible
from headwater.local.processes import wait_until
from headwater.settings import Settings
from headwater.testing import (
    Harness,
    add,
    advance_event_time,
    check,
    check_late,
    check_new,
    crash,
    process,
    restart,
)


def scores(late: Late | str, *, mode: str = "append", trigger: str = "default") -> Pipeline:
    app = Pipeline("teams")
    app.source(
        "scores",
        kafka("scores"),
        schema="team string, at timestamp, points bigint",
        event_time="at",
        watermark="1 minute",
    )

    @app.table(key=["team", "start"], mode=mode, late=late, trigger=trigger)
    def totals(scores: DataFrame) -> DataFrame:
        return (
            scores.groupBy(F.window("at", "2 minutes"), "team")
            .agg(
                F.sum("points").alias("points"),
                F.avg(F.lit(1)).alias("one"),
                F.avg("points").alias("mean"),
            )
            .select("team", F.col("window.start").alias("start"), "points", "mean", "one")
        )

    return app


COLUMNS = ("team", "start", "points", "pane", "pane_index")
IN_TIME = [
    add("scores", [("a", "12:00:30", 5), ("a", "12:01:00", 7), ("b", "12:01:10", 1)]),
    process(),
    add("scores", [("a", "12:03:30", 3)]),
    process(),
]


def test_a_window_fires_on_time_and_again_for_late_rows() -> None:
    Harness(scores("refire 1 hour")).run(
        add("scores", [("a", "12:00:30", 5), ("a", "12:01:00", 7), ("b", "12:01:10", 1)]),
        process(),
        check_new("totals", []),
        add("scores", [("a", "12:03:30", 3)]),
        process(),
        check_new(
            "totals",
            [("a", "12:00:00", 12, "on_time", 0), ("b", "12:00:00", 1, "on_time", 0)],
            columns=COLUMNS,
        ),
        add("scores", [("a", "12:01:30", 4)]),
        process(),
        check_new("totals", [("a", "12:00:00", 16, "late", 1)], columns=COLUMNS),
        add("scores", [("c", "12:01:30", 4)]),
        process(),
        check_new("totals", [("c", "12:00:00", 4, "late", 0)], columns=COLUMNS),
        advance_event_time("scores", "14:00:00"),
        check_new("totals", [("a", "12:02:00", 3, "on_time", 0)], columns=COLUMNS),
        add("scores", [("a", "12:01:30", 4)]),
        process(),
        check_new("totals", []),
        check_late("totals", [("a", "12:01:30", 4)]),
    )


def test_a_pane_says_what_stood_there_before() -> None:
    Harness(scores("refire 1 hour")).run(
        *IN_TIME,
        add("scores", [("a", "12:01:30", 4)]),
        process(),
        check_new(
            "totals",
            [
                {"team": "a", "points": 12, "previous": None, "is_final": False},
                {"team": "b", "points": 1, "previous": None, "is_final": False},
                {
                    "team": "a",
                    "points": 16,
                    "previous": {
                        "team": "a",
                        "start": "12:00:00",
                        "points": 12,
                        "mean": 6.0,
                        "one": 1.0,
                    },
                    "is_final": False,
                },
            ],
        ),
    )


def test_discarding_panes_hold_what_is_new() -> None:
    Harness(scores(Late.refire("1 hour", early="every batch", values="discarding"))).run(
        add("scores", [("a", "12:00:30", 5)]),
        process(),
        add("scores", [("a", "12:01:00", 7)]),
        process(),
        add("scores", [("a", "12:03:30", 3)]),
        process(),
        add("scores", [("a", "12:01:30", 4), ("a", "12:01:40", 6)]),
        process(),
        check(
            "totals",
            [
                ("a", "12:00:00", 5, 5.0, "early"),
                ("a", "12:00:00", 7, 7.0, "early"),
                ("a", "12:02:00", 3, 3.0, "early"),
                ("a", "12:00:00", 0, None, "on_time"),
                ("a", "12:00:00", 10, 5.0, "late"),
            ],
            columns=("team", "start", "points", "mean", "pane"),
        ),
    )


def test_retracting_panes_take_the_last_value_back() -> None:
    Harness(scores(Late.refire("1 hour", values="retracting"))).run(
        *IN_TIME,
        add("scores", [("a", "12:01:30", 4)]),
        process(),
        check(
            "totals",
            [
                ("a", 12, "on_time", False),
                ("b", 1, "on_time", False),
                ("a", 12, "late", True),
                ("a", 16, "late", False),
            ],
            columns=("team", "points", "pane", "is_retraction"),
        ),
    )


def test_allowed_lateness_corrects_once_at_its_end() -> None:
    Harness(scores("allow 1 hour")).run(
        *IN_TIME,
        add("scores", [("a", "12:01:30", 4)]),
        process(),
        add("scores", [("a", "12:01:40", 6)]),
        process(),
        check(
            "totals",
            [("a", 12, "on_time", False), ("b", 1, "on_time", False)],
            columns=("team", "points", "pane", "is_final"),
        ),
        advance_event_time("scores", "13:03:00"),
        check(
            "totals",
            [
                ("a", 12, "on_time", False),
                ("b", 1, "on_time", False),
                ("a", 22, "late", True),
                ("a", 3, "on_time", False),
            ],
            columns=("team", "points", "pane", "is_final"),
        ),
    )


def test_early_panes_follow_the_processing_time() -> None:
    app = scores(Late.refire("1 hour", early="20 seconds"), trigger="10 seconds")
    from headwater.testing import advance

    Harness(app).run(
        add("scores", [("a", "12:00:00", 5)]),
        advance("10 seconds"),
        add("scores", [("a", "12:00:05", 1)]),
        advance("10 seconds"),
        check_new("totals", [("a", "12:00:00", 6, "early", 0)], columns=COLUMNS),
        add("scores", [("a", "12:00:25", 1)]),
        advance("10 seconds"),
        check_new("totals", []),
        advance("20 seconds"),
        add("scores", [("b", "12:00:26", 1)]),
        advance("10 seconds"),
        check_new(
            "totals",
            [("a", "12:00:00", 7, "early", 1), ("b", "12:00:00", 1, "early", 0)],
            columns=COLUMNS,
        ),
    )


@pytest.mark.parametrize(
    "point", ["after_sink", pytest.param("before_sink", marks=pytest.mark.matrix)]
)
def test_panes_survive_a_crash_at_any_moment(point: str) -> None:
    Harness(scores("refire 1 hour", mode="update")).run(
        *IN_TIME,
        add("scores", [("a", "12:01:30", 4)]),
        crash(point),
        restart(),
        process(),
        add("scores", [("a", "12:01:40", 6)]),
        process(),
        check(
            "totals",
            [("a", "12:00:00", 22, "late", 2), ("b", "12:00:00", 1, "on_time", 0)],
            columns=COLUMNS,
        ),
    )


def session_app(late: str) -> Pipeline:
    app = Pipeline("visits")
    app.source(
        "clicks",
        kafka("clicks"),
        schema="user string, at timestamp",
        event_time="at",
        watermark="1 minute",
    )

    @app.table(late=late)
    def visits(clicks: DataFrame) -> DataFrame:
        return clicks.groupBy(F.session_window("at", "5 minutes"), "user").count()

    return app


def test_sessions_cannot_fire_again() -> None:
    with pytest.raises(LatePolicyImpossible, match="session windows"):
        Harness(session_app("refire 1 hour")).run(process())


def test_the_status_says_which_windows_wait_for_an_idle_source(tmp_path: Path) -> None:
    app = Pipeline("teams", settings=Settings(folder=tmp_path))
    moment = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
    app.source(
        "scores",
        queue([[("a", moment, 5)]]),
        schema="team string, at timestamp, points bigint",
        event_time="at",
        watermark="1 minute",
    )
    app.table(name="totals", key=["team", "start"], late="refire 1 hour")(
        lambda scores: (
            scores.groupBy(F.window("at", "2 minutes"), "team")
            .agg(F.sum("points").alias("points"))
            .select("team", F.col("window.start").alias("start"), "points")
        )
    )
    run = app.start()
    try:

        def waiting() -> str | None:
            found: str | None = run.status()["tables"][0]["waiting"]
            return found

        assert wait_until(lambda: waiting() is not None, timeout_s=120)
        assert str(waiting()).startswith(
            "1 window waits for the watermark to pass 2026-01-01 12:02"
        )
        assert any("1 window waits" in line for line in run_lines(described(run.status())))
    finally:
        run.stop()


def described(status: dict[str, Any]) -> dict[str, Any]:
    about = {"app": "app.py", "state": "running", "pid": 1, "started_at": 0.0, "ended_at": None}
    return {**status, **about}
