"""A running pipeline asked in SQL, and heard by a listener of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryListener

from headwater import Pipeline
from headwater.connectors import memory, rate
from headwater.errors import SqlTimeout
from headwater.observe.datasets import table_data
from headwater.observe.live_sql import answer
from headwater.settings import Settings

pytestmark = pytest.mark.usefixtures("spark")


class Heard(StreamingQueryListener):
    """Notes what Spark tells."""

    def __init__(self) -> None:
        self.started: list[str | None] = []
        self.batches: list[int] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        self.started.append(event.name)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.batches.append(event.progress.batchId)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


def test_a_table_in_memory_is_asked_from_the_running_pipeline(tmp_path: Path) -> None:
    app = Pipeline("asked", settings=Settings(folder=tmp_path, master="local[2]"))
    app.source("ticks", rate(rows_per_batch=10, rows=20))

    @app.view
    def even(ticks: DataFrame) -> DataFrame:
        return ticks.where("value % 2 = 0")

    @app.table(into=memory(), trigger="100 milliseconds")
    def asked_even(even: DataFrame) -> DataFrame:
        return even

    listener = Heard()
    app.listen(listener)
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
        view = answer(
            "SELECT count(*) FROM even",
            lambda name: table_data(app.definitions(), app.settings, name),
            ["even"],
        )
        with pytest.raises(SqlTimeout):
            table_data(app.definitions(), app.settings, "even", timeout_s=0.001)
    finally:
        run.stop()
    assert view.rows == ((10,),)
    assert listener.started == ["asked_even"]
    assert listener.batches[:2] == [0, 1]
    assert found.rows[0][:2] == (10, 18)
    assert found.rows[0][2].isoformat() == "1970-01-01T00:00:00+00:00"
