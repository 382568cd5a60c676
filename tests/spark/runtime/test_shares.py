"""How queries share the cores when there is more to do than they can take."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from headwater import Pipeline
from headwater.connectors import foreach_batch, rate
from headwater.local.processes import wait_until
from headwater.settings import Settings

pytestmark = pytest.mark.usefixtures("spark")
BUSY = "reflect('java.lang.Thread', 'sleep', cast(value % 1 + 250 as bigint))"
"""Holds a core for a quarter of a second per row."""


def wait(rows: DataFrame, batch: int) -> None:
    rows.where(f"{BUSY} = 'never'").write.format("noop").mode("append").save()


def test_no_query_waits_for_ever_behind_those_whose_names_come_first(tmp_path: Path) -> None:
    app = Pipeline("shares", settings=Settings(folder=tmp_path))
    app.source("ticks", rate(rows_per_batch=2))

    for name in ("a", "b", "c", "d", "e", "f", "z"):
        app.table(name=name, into=foreach_batch(wait))(lambda ticks: ticks)
    running = app.start()
    try:
        first, last = running.queries["a"], running.queries["z"]
        assert wait_until(lambda: (first.last_batch or 0) >= 10, timeout_s=120)
        assert (last.last_batch or 0) >= 5
    finally:
        running.stop()


def test_a_quick_query_does_not_wait_behind_those_that_have_time(tmp_path: Path) -> None:
    app = Pipeline("shares", settings=Settings(folder=tmp_path))
    app.source("ticks", rate(rows_per_batch=2))

    def wait_long(rows: DataFrame, batch: int) -> None:
        more = rows.selectExpr("explode(sequence(1, 20)) AS value").repartition(20)
        wait(more, batch)

    slow = ("a", "b", "c")
    for name in slow:
        app.table(name=name, into=foreach_batch(wait_long), trigger="1 minute")(lambda ticks: ticks)
    app.table(name="quick", into=foreach_batch(wait))(lambda ticks: ticks)
    running = app.start()
    try:
        queries = [running.queries[name] for name in slow]
        assert wait_until(
            lambda: all(query.last_batch is not None for query in queries), timeout_s=120
        )
        # Behind 120 tasks of theirs it would have had one or two.
        assert (running.queries["quick"].last_batch or 0) >= 5
    finally:
        running.stop()
