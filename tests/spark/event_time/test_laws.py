"""The laws of event time, on random rows, random cuts, random order and restarts.

Each law is also broken on purpose, and must then be found broken.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import kafka
from headwater.event_time import watch as watch_room
from headwater.event_time.panes import PaneMaker
from headwater.ledger.windows import OpenWindows, WindowLedger
from headwater.testing.harness import session
from headwater.testing.kept import Row
from headwater.testing.scene import Content, Scene, Stage
from headwater.testing.values import difference

START = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
FAR = START + dt.timedelta(days=30)
Body = Callable[[DataFrame], DataFrame]


def tumbling(rows: DataFrame) -> DataFrame:
    counted = rows.groupBy(F.window("at", "10 minutes"), "key").agg(
        F.count("*").alias("rows"), F.sum("value").alias("total")
    )
    return counted.select("key", F.col("window.start").alias("start"), "rows", "total")


def sliding(rows: DataFrame) -> DataFrame:
    counted = rows.groupBy(F.window("at", "10 minutes", "4 minutes"), "key").count()
    return counted.select("key", F.col("window.start").alias("start"), "count")


def sessions(rows: DataFrame) -> DataFrame:
    counted = rows.groupBy(F.session_window("at", "5 minutes"), "key").count()
    found = F.col("session_window")
    return counted.select("key", found.start.alias("start"), found.end.alias("end"), "count")


def deduplicated(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["key", "at"]).select("key", "at")


def chained(rows: DataFrame) -> DataFrame:
    minutes = rows.groupBy(F.window("at", "2 minutes"), "key").count()
    hours = minutes.groupBy(F.window("window", "20 minutes"), "key").agg(F.sum("count").alias("n"))
    return hours.select("key", F.col("window.start").alias("start"), "n")


def app_of(body: Body, **table: Any) -> Pipeline:
    app = Pipeline("laws")
    app.source(
        "rows",
        kafka("rows"),
        schema="key string, at timestamp, value bigint",
        event_time="at",
        watermark="10 minutes",
    )
    app.table(name="result", reads={"rows": "rows"}, **table)(body)
    return app


def batches_of(seed: int, *, disorder_minutes: float, count: int = 3) -> list[list[Row]]:
    """Rows of an hour in random batches, each row overtaken by up to `disorder_minutes`."""
    chance = random.Random(seed)
    moments = [START + dt.timedelta(seconds=chance.randrange(3600)) for _ in range(60)]
    held = sorted(
        (at + dt.timedelta(minutes=chance.random() * disorder_minutes), number, at)
        for number, at in enumerate(moments)
    )
    rows: list[Row] = [(chance.choice("abc"), at, chance.randrange(10)) for _, _, at in held]
    cuts = sorted(chance.sample(range(1, len(rows)), count - 1))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


@contextmanager
def played(
    app: Pipeline, batches: list[list[Row]], *, seed: int = 0, stage: Stage | None = None
) -> Iterator[Scene]:
    """A scene in which the batches were processed, with restarts at random ones, and closed."""
    chance = random.Random(seed)
    scene = Scene(app, session(app), stage)
    try:
        for batch in batches:
            scene.tape("rows").add(batch)
            scene.process()
            if chance.random() < 0.3:
                chance.choice([scene.restart, lambda: scene.crash_after_sink(["result"])])()
        scene.move_event_time("rows", FAR)
        yield scene
    finally:
        scene.close()


def of_columns(content: Content, names: list[str]) -> list[Row]:
    positions = [content.schema.names.index(name) for name in names]
    return [tuple(row[i] for i in positions) for row in content.rows]


def conserved(scene: Scene) -> bool:
    """Every pair of row and window is in the result or in the late table, once."""
    missing, extra = difference(scene.batch()["result"].rows, scene.content("result").rows)
    return not missing and not extra


def late_pairs(scene: Scene) -> Counter[str]:
    found = of_columns(scene.content("result__late"), ["key", "at", "value", "window"])
    return Counter(map(repr, found))


BODIES = [tumbling, sliding, sessions, deduplicated, chained]
MATRIX = (tumbling, deduplicated, chained)
"""What runs with -m matrix only: the others cover the same ground."""


def _cases() -> list[Any]:
    return [
        pytest.param(seed, body, marks=[pytest.mark.matrix] if body in MATRIX else [])
        for seed, body in enumerate(BODIES)
    ]


@pytest.mark.parametrize(("seed", "body"), _cases(), ids=lambda x: getattr(x, "__name__", str(x)))
def test_every_row_is_counted_or_late(seed: int, body: Body) -> None:
    with played(app_of(body), batches_of(seed, disorder_minutes=90), seed=seed) as scene:
        assert sum(late_pairs(scene).values()) > 0
        assert conserved(scene)


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(10, 20))
@pytest.mark.parametrize("body", BODIES)
def test_every_row_is_counted_or_late_whatever_the_seed(seed: int, body: Body) -> None:
    with played(app_of(body), batches_of(seed, disorder_minutes=40), seed=seed) as scene:
        assert conserved(scene)


@pytest.mark.parametrize("mode", [pytest.param("update", marks=pytest.mark.matrix), "complete"])
def test_every_row_is_counted_or_late_in_every_mode(mode: str) -> None:
    app = app_of(sliding, mode=mode, key=["key", "start"])
    with played(app, batches_of(1, disorder_minutes=40), seed=1) as scene:
        assert conserved(scene)


def judged_by(kind: Any, watermark: Callable[[Column], Column]) -> Any:
    """A watch as it would be with another watermark than the one that Spark closes windows by."""
    honest = kind.__init__

    def init(self: Any, frame: Any, entry: Any, at: Column, **flags: Any) -> None:
        honest(self, frame, entry, watermark(at), **flags)

    return init


def test_a_watch_that_sees_too_little_breaks_conservation(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (watch_room._AtOperator, watch_room._BelowWindows):
        earlier = judged_by(kind, lambda at: at - F.expr("INTERVAL 9 MINUTES"))
        monkeypatch.setattr(kind, "__init__", earlier)
    with played(app_of(tumbling), batches_of(0, disorder_minutes=40, count=4)) as scene:
        # Spark drops what the watch let through.
        assert not conserved(scene)


def test_late_rows_that_nobody_stores_break_conservation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.runtime.sides.SideTables._keep", lambda *_: None)
    with played(app_of(tumbling), batches_of(0, disorder_minutes=40)) as scene:
        assert not conserved(scene)


@pytest.mark.parametrize("body", [tumbling, pytest.param(sessions, marks=pytest.mark.matrix)])
def test_disorder_inside_the_watermark_makes_no_row_late(body: Body) -> None:
    with played(app_of(body), batches_of(2, disorder_minutes=9.9), seed=2) as scene:
        assert late_pairs(scene) == Counter()
        assert conserved(scene)


def last_panes(scene: Scene) -> list[Row]:
    newest: dict[str, tuple[int, Row]] = {}
    for row in scene.kept["result"].after(-1):
        names = scene.content("result").schema.names
        of = dict(zip(names, row, strict=True))
        group = repr((of["key"], of["start"]))
        value = (of["key"], of["start"], of["rows"], of["total"])
        if group not in newest or newest[group][0] < of["pane_index"]:
            newest[group] = (of["pane_index"], value)
    return [value for _, value in newest.values()]


def panes_are_the_batch(scene: Scene) -> bool:
    missing, extra = difference(scene.batch()["result"].rows, last_panes(scene))
    return not missing and not extra


def on_time_panes(scene: Scene) -> Counter[str]:
    names = scene.content("result").schema.names
    rows = [dict(zip(names, row, strict=True)) for row in scene.kept["result"].after(-1)]
    return Counter(repr((r["key"], r["start"])) for r in rows if r["pane"] == "on_time")


@pytest.mark.parametrize(
    "late", ["refire 2 hours", pytest.param("allow 2 hours", marks=pytest.mark.matrix)]
)
def test_the_last_pane_of_every_window_is_the_batch(late: str) -> None:
    with played(app_of(tumbling, late=late), batches_of(3, disorder_minutes=40), seed=3) as scene:
        assert late_pairs(scene) == Counter()
        assert panes_are_the_batch(scene)
        assert max(on_time_panes(scene).values()) == 1


def test_a_ledger_that_forgets_breaks_the_panes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowLedger, "open_windows", lambda *_: OpenWindows())
    app = app_of(tumbling, late="refire 2 hours")
    with played(app, batches_of(3, disorder_minutes=40)) as scene:
        assert not on_time_panes(scene)


def test_a_ledger_that_forgets_what_fired_fires_on_time_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PaneMaker, "fired_since", lambda _, known, ends: known)
    app = app_of(tumbling, late="refire 2 hours")
    with played(app, batches_of(3, disorder_minutes=40)) as scene:
        assert max(on_time_panes(scene).values()) > 1


def test_the_same_batches_give_the_same_late_rows_under_every_trigger() -> None:
    batches = batches_of(4, disorder_minutes=40)
    found = []
    for trigger in ("default", "once"):
        with played(app_of(sliding), batches, stage=Stage(trigger=trigger)) as scene:
            found.append(late_pairs(scene))
    assert found[0] == found[1]
    assert found[0]


def test_a_watch_by_the_batch_before_depends_on_the_trigger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headwater.runtime.offsets import OffsetLog

    def before(self: OffsetLog) -> int:
        latest = self.latest()
        entry = None if latest is None else self.entry(latest.batch - 1)
        return 0 if entry is None else entry.watermark_ms

    monkeypatch.setattr(OffsetLog, "watermark_ms", before)
    batches = batches_of(4, disorder_minutes=40)
    found = []
    for trigger in ("default", "once"):
        with played(app_of(sliding), batches, stage=Stage(trigger=trigger)) as scene:
            found.append(scene.late_count("result").late_windows)
    assert found[0] != found[1]
