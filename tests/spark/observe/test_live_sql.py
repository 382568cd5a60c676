"""SQL over a table that lives in the memory of a running pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from headwater import Pipeline
from headwater.connectors import memory, rate
from headwater.observe.datasets import table_data
from headwater.observe.live_sql import answer
from headwater.settings import Settings

pytestmark = pytest.mark.usefixtures("spark")


def test_a_table_in_memory_is_asked_from_the_running_pipeline(tmp_path: Path) -> None:
    app = Pipeline("asked", settings=Settings(folder=tmp_path, master="local[2]"))
    app.source("ticks", rate(rows_per_batch=10, rows=20))

    @app.table(into=memory(), trigger="100 milliseconds")
    def asked_even(ticks: DataFrame) -> DataFrame:
        return ticks.where("value % 2 = 0")

    run = app.start()
    try:
        query = run["asked_even"]
        while (query.last_batch or 0) < 1 and query.is_active:
            query.await_termination(timeout_s=0.2)
        found = answer(
            "SELECT count(*) AS n, max(value) AS top, min(timestamp) AS first FROM asked_even",
            lambda name: table_data(app.definitions(), app.settings, name),
            ["asked_even"],
        )
    finally:
        run.stop()
    assert found.rows[0][:2] == (10, 18)
    assert found.rows[0][2].isoformat() == "1970-01-01T00:00:00+00:00"
