"""Joins of streams with each other and with lookups that change."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import csv, json, kafka, queue
from headwater.errors import NotStreamable
from headwater.settings import Settings
from headwater.testing import (
    Harness,
    add,
    advance_event_time,
    check,
    check_late,
    process,
    reload_lookup,
    restart,
)
from headwater.testing.harness import session
from headwater.testing.scene import Scene
from headwater.testing.values import difference
from headwater.verification import verify

BOUND = "clicked_ad = ad AND clicked_at BETWEEN shown_at AND shown_at + INTERVAL 1 HOUR"


def ads(kind: str, *, condition: str = BOUND) -> Pipeline:
    app = Pipeline("ads")
    app.source(
        "shown",
        kafka("shown"),
        schema="ad string, shown_at timestamp",
        event_time="shown_at",
        watermark="10 minutes",
    )
    app.source(
        "clicks",
        kafka("clicks"),
        schema="clicked_ad string, clicked_at timestamp",
        event_time="clicked_at",
        watermark="20 minutes",
    )

    @app.table
    def joined(shown: DataFrame, clicks: DataFrame) -> DataFrame:
        return shown.join(clicks, F.expr(condition), kind)

    return app


ROWS = [
    add("shown", [("sofa", "12:00:00"), ("lamp", "12:05:00")]),
    add("clicks", [("sofa", "12:20:00"), ("rug", "12:21:00")]),
    process(),
]
PAIR = ("sofa", "12:00:00", "sofa", "12:20:00")
EXPECTED = {
    "inner": [PAIR],
    "left_outer": [PAIR, ("lamp", "12:05:00", None, None)],
    "right_outer": [PAIR, (None, None, "rug", "12:21:00")],
    "full_outer": [PAIR, ("lamp", "12:05:00", None, None), (None, None, "rug", "12:21:00")],
    "left_semi": [PAIR[:2]],
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind in ("full_outer", "left_semi") else pytest.mark.matrix)
        for kind in EXPECTED
    ],
)
def test_rows_without_a_match_appear_when_the_watermark_rules_one_out(kind: str) -> None:
    now = [row for row in EXPECTED[kind] if None not in row]
    Harness(ads(kind)).run(
        *ROWS,
        check("joined", now),
        advance_event_time("shown", "15:00:00"),
        check("joined", now),
        advance_event_time("clicks", "15:00:00"),
        check("joined", EXPECTED[kind]),
    )


def test_late_rows_of_a_join_say_which_side_they_came_from() -> None:
    Harness(ads("inner")).run(
        *ROWS,
        advance_event_time("shown", "15:00:00"),
        advance_event_time("clicks", "15:00:00"),
        # The slower watermark counts: 14:40.
        add("shown", [("late", "14:40:00"), ("new", "14:41:00")]),
        add("clicks", [("late", "14:30:00"), ("new", "14:50:00")]),
        process(),
        check("joined", [PAIR, ("new", "14:41:00", "new", "14:50:00")]),
        check_late(
            "joined",
            [
                {"input": "left", "ad": "late", "clicked_ad": None},
                {"input": "right", "ad": None, "clicked_ad": "late"},
            ],
        ),
    )


@contextmanager
def scene_of(app: Pipeline) -> Iterator[Scene]:
    scene = Scene(app, session(app))
    try:
        yield scene
    finally:
        scene.close()


def test_every_row_of_a_join_is_accepted_or_late_once_per_side() -> None:
    with scene_of(ads("full_outer")) as scene:
        # In the third step the watermark is 13:50: both rows of "b" are behind it.
        times = [("12:00:00", "12:10:00"), ("14:00:00", "14:30:00"), ("14:05:00", "14:35:00")]
        for shown, clicked in times:
            scene.tape("shown").add([("a", shown), ("b", "12:01:00")])
            scene.tape("clicks").add([("a", clicked), ("b", "12:02:00")])
            scene.process()
        scene.move_event_time("shown", "20:00:00")
        scene.move_event_time("clicks", "20:00:00")
        assert scene.late_count("joined").late == 2
        missing, extra = difference(scene.batch()["joined"].rows, scene.content("joined").rows)
        assert (missing, extra) == ([], [])


def test_an_outer_join_without_a_time_bound_is_refused() -> None:
    with pytest.raises(NotStreamable, match="watermark"):
        Harness(ads("left_outer", condition="clicked_ad = ad")).run(process())


def enriched(*, reload: str | None) -> Pipeline:
    app = Pipeline("enriched")
    app.source("signals", kafka("signals"), schema="device string, celsius double")
    app.lookup("sites", csv("sites.csv"), schema="device string, site string", reload=reload)

    @app.table
    def readings(signals: DataFrame, sites: DataFrame) -> DataFrame:
        return signals.join(sites, "device", "left")

    return app


def test_a_changed_lookup_is_joined_from_the_next_batch_on() -> None:
    Harness(enriched(reload="5 minutes"), lookups={"sites": [("dev1", "Rome")]}).run(
        add("signals", [("dev1", 1.0)]),
        process(),
        reload_lookup("sites", [("dev1", "Oslo")]),
        add("signals", [("dev1", 2.0)]),
        process(),
        check("readings", [("dev1", 1.0, "Rome"), ("dev1", 2.0, "Oslo")]),
        restart(),
        add("signals", [("dev1", 3.0)]),
        process(),
        check("readings", [("dev1", 3.0, "Oslo")], contains=True),
    )


def test_a_batch_that_runs_again_joins_what_it_joined_before() -> None:
    app = enriched(reload="5 minutes")
    from headwater.testing.scene import Stage

    scene = Scene(app, session(app), Stage(lookups={"sites": [("dev1", "Rome")]}))
    try:
        scene.tape("signals").add([("dev1", 1.0)])
        scene.process()
        scene.crash_after_sink(["readings"])
        scene.change_lookup("sites", [("dev1", "Oslo")])
        scene.restart()
        scene.tape("signals").add([("dev1", 2.0)])
        scene.process()
        assert sorted(scene.content("readings").rows) == [
            ("dev1", 1.0, "Rome"),
            ("dev1", 2.0, "Oslo"),
        ]
    finally:
        scene.close()


def test_a_late_row_that_is_kept_afterwards_joins_what_its_batch_joined(
    spark: SparkSession, tmp_path: Path
) -> None:
    sites = tmp_path / "sites.csv"

    def app(storage: str) -> Pipeline:
        app = Pipeline("enriched", settings=Settings(folder=tmp_path, storage=storage))
        app.source(
            "signals",
            json(str(tmp_path / "in")),
            schema="device string, at timestamp",
            event_time="at",
            watermark="1 minute",
        )
        app.lookup("sites", csv(str(sites)), schema="device string, site string", reload="1 hour")

        @app.table(late="capture", mode="append")
        def counts(signals: DataFrame, sites: DataFrame) -> DataFrame:
            known = signals.join(sites, "device").groupBy(F.window("at", "1 minute"), "site")
            return known.agg(F.count("*").alias("signals"))

        return app

    def run(storage: str, number: int, site: str, *moments: str) -> None:
        sites.write_text(f"device,site\nd1,{site}\n")
        lines = [f'{{"device": "d1", "at": "2026-01-01T{moment}Z"}}\n' for moment in moments]
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / f"in/{number}.json").write_text("".join(lines))
        app(storage).refresh()

    def late(storage: str) -> list[str]:
        place = tmp_path / storage / "enriched/tables/counts__late"
        return [row.site for row in spark.read.format("delta").load(str(place)).collect()]

    run("one", 0, "Rome", "12:00:00", "12:10:00")
    run("one", 1, "Rome", "12:00:30", "12:11:00")
    run("one", 2, "Oslo", "12:20:00")
    assert late("one") == ["Rome"]

    # As after a crash that came before the late rows of these batches were kept.
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    shutil.rmtree(tmp_path / "two/enriched/tables/counts__late")
    kept_until = tmp_path / "two/enriched/checkpoints/counts/headwater/counts__late"
    assert int(kept_until.read_text()) > 0
    kept_until.write_text("0")
    kept_until.with_name(f".{kept_until.name}.crc").unlink(missing_ok=True)
    run("two", 3, "Oslo", "12:21:00")
    assert late("two") == ["Rome"]


def test_duplicates_within_the_watermark_are_left_out_of_a_batch_too() -> None:
    app = Pipeline("once")
    moment = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    app.source(
        "rows",
        queue([[(1, moment), (2, moment)], [(1, moment)]]),
        schema="id int, at timestamp",
        event_time="at",
        watermark="1 minute",
    )
    app.table(name="once")(lambda rows: rows.dropDuplicatesWithinWatermark(["id"]))
    assert sorted(row.id for row in app.batch()["once"].collect()) == [1, 2]
    found = verify(app, session(app), seconds=60, trials=2)
    assert found.holds
