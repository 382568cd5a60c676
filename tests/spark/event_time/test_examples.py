"""The worked tables of event time, row by row after every batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.cli.app import Application
from headwater.testing import (
    Harness,
    add,
    advance_event_time,
    check,
    check_late,
    check_new,
    check_watermark,
    process,
)

pytestmark = pytest.mark.usefixtures("spark")
Load = Callable[..., Application]
EXAMPLES = Path(__file__).parents[3] / "examples"

#  event time
#  12:21 |                        o dev2
#  12:17 |                                  o dev3
#  12:15 |                  o dev3
#  12:14 |            o dev1
#  12:13 |                     o dev2
#  12:11 |. . . . . . . . . . . . . . . ----- watermark of batch 3
#  12:09 |              o dev3
#  12:08 |   o dev2           o dev1
#  12:07 | o dev1
#  12:04 |. . . . . . . ------------- x dev1, late
#        +--------------------------------------
#          batch 0   batch 1   batch 2   batch 3

BATCHES = [
    [("dev1", "12:07:00"), ("dev2", "12:08:00")],
    [("dev1", "12:14:00"), ("dev3", "12:09:00")],
    [("dev3", "12:15:00"), ("dev1", "12:08:00"), ("dev2", "12:13:00"), ("dev2", "12:21:00")],
    [("dev1", "12:04:00"), ("dev3", "12:17:00")],
]
CHANGED = [
    [
        ("12:00:00", "dev1", 1),
        ("12:05:00", "dev1", 1),
        ("12:00:00", "dev2", 1),
        ("12:05:00", "dev2", 1),
    ],
    [
        ("12:05:00", "dev1", 2),
        ("12:10:00", "dev1", 1),
        ("12:00:00", "dev3", 1),
        ("12:05:00", "dev3", 1),
    ],
    [
        ("12:10:00", "dev3", 1),
        ("12:15:00", "dev3", 1),
        ("12:00:00", "dev1", 2),
        ("12:05:00", "dev1", 3),
        ("12:05:00", "dev2", 2),
        ("12:10:00", "dev2", 1),
        ("12:15:00", "dev2", 1),
        ("12:20:00", "dev2", 1),
    ],
    [("12:10:00", "dev3", 2), ("12:15:00", "dev3", 2)],
]
CLOSED = [[], [], [("12:00:00", "dev1", 2), ("12:00:00", "dev2", 1), ("12:00:00", "dev3", 1)], []]
WATERMARKS = ["11:58:00", "12:04:00", "12:11:00", "12:11:00"]


def whole_after(batch: int) -> list[tuple[str, str, int]]:
    """What complete mode holds: every group's last value."""
    groups = {(s, d): n for rows in CHANGED[: batch + 1] for s, d, n in rows}
    return [(start, device, count) for (start, device), count in groups.items()]


def test_the_device_signals_after_every_batch(example: Load) -> None:
    script = []
    for number, rows in enumerate(BATCHES):
        script += [
            add("signals", rows),
            process(),
            check_new("closed", CLOSED[number]),
            check_new("changed", CHANGED[number]),
            check("whole", whole_after(number)),
            check_watermark("closed", WATERMARKS[number]),
        ]
    missed = [("dev1", "12:04:00"), ("dev1", "12:04:00")]
    tables = ("closed", "changed", "whole")
    Harness(example("event_time").pipeline).run(
        *script, *(check_late(table, missed) for table in tables)
    )


def test_the_row_of_every_lecture_is_counted(example: Load) -> None:
    """12:04 dev2 arrives at 12:11: the watermark is 12:01, and no window of it has ended."""
    Harness(example("event_time").pipeline).run(
        add("signals", [("dev1", "12:11:00")]),
        process(),
        add("signals", [("dev2", "12:04:00")]),
        process(),
        check_new("changed", [("11:55:00", "dev2", 1), ("12:00:00", "dev2", 1)], contains=True),
        check_late("changed", []),
        # The boundary: a window that ends where the watermark stands is closed.
        advance_event_time("signals", "12:15:00"),
        add("signals", [("dev3", "12:04:59")]),
        process(),
        check_late(
            "changed", [{"device": "dev3", "window": {"start": "11:55:00", "end": "12:05:00"}}]
        ),
    )


def test_five_policies_and_the_picture_are_those_of_the_readme(
    example: Load, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = example("event_time", app="scores.py")
    monkeypatch.chdir(app.settings.folder)
    import picture  # type: ignore[import-not-found]
    import scores  # type: ignore[import-not-found]

    app.pipeline.refresh()
    readme = (EXAMPLES / "event_time/README.md").read_text()
    for name, text in scores.tables().items():
        assert f"{name}\n{text}" in readme
    drawn = picture.drawn(scores.BATCHES, window_s=120, delay_s=60)
    assert drawn == (EXAMPLES / "event_time/scores.svg").read_text()


def test_ads_without_a_click_appear_when_none_can_come(example: Load) -> None:
    app = example("ads").pipeline
    app.refresh()
    spark = app.plan().spark
    folder = Path(app.settings.storage_root) / "ads/tables"
    shown = spark.read.format("delta").load(str(folder / "shown"))
    late = spark.read.format("delta").load(str(folder / "shown__late"))
    found = {
        (row.ad, row.clicked_at and f"{row.clicked_at:%H:%M}")
        for row in shown.selectExpr("ad", "clicked_at").collect()
    }
    assert {("sofa", "12:20"), ("desk", "13:40"), ("sofa", "15:20"), ("lamp", None)} <= found
    assert [(row.input, row.clicked_ad) for row in late.collect()] == [("right", "lamp")]


def test_a_visit_ends_half_an_hour_behind_its_last_click(example: Load) -> None:
    Harness(example("inactive").pipeline).run(
        add("clicks", [("ann", "12:00:00"), ("bob", "12:02:00")]),
        process(),
        add("clicks", [("ann", "12:20:00"), ("ann", "12:15:00")]),
        process(),
        check("visits", []),
        advance_event_time("clicks", "12:45:00"),
        check("visits", [("bob", "12:02:00", "12:02:00", 1)]),
        add("clicks", [("eve", "12:30:00")]),
        process(),
        check_late("visits", [{"user": "eve", "at": "12:30:00"}]),
        advance_event_time("clicks", "13:30:00"),
        check(
            "visits",
            [("bob", "12:02:00", "12:02:00", 1), ("ann", "12:00:00", "12:20:00", 3)],
        ),
    )
