"""Questions in SQL over tables that live in databases, while the pipeline runs and afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater import Pipeline
from headwater.connectors import memory, postgres, redis
from headwater.connectors.interface import Connector
from headwater.errors import RowsUnreadable
from headwater.observe.datasets import table_data
from headwater.observe.live_sql import Answer, answer
from headwater.settings import Connection, Settings

QUESTION = "SELECT count(*) AS n, sum(celsius) AS celsius FROM latest"


def pipeline(folder: Path, sink: Connector, connection: Connection) -> Pipeline:
    settings = Settings(folder, connections={connection.name: connection.options})
    app = Pipeline("asked", settings=settings)
    rows = [("a", 20.0), ("b", 21.5)]
    app.source("signals", memory(rows=rows), schema="device string, celsius double")

    @app.table(into=sink, key="device")
    def latest(signals: DataFrame) -> DataFrame:
        return signals

    return app


def asked(app: Pipeline) -> Answer:
    definitions = app.definitions()
    return answer(QUESTION, lambda name: table_data(definitions, app.settings, name), ["latest"])


def both_ways(app: Pipeline) -> None:
    run = app.start()
    try:
        query = run["latest"]
        while query.last_batch is None and query.is_active:
            query.await_termination(timeout_s=0.2)
        assert asked(app).rows == ((2, 41.5),)
    finally:
        run.stop()
    assert asked(app).rows == ((2, 41.5),)


def test_a_table_in_postgres_is_asked(
    spark: SparkSession,
    postgres_connection: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = pipeline(tmp_path, postgres("asked_latest"), postgres_connection)
    both_ways(app)
    # PostgreSQL says the user's name back, which stands for a secret here.
    monkeypatch.setenv("ASKED_USER", "nobody-should-see-this")
    options = {**postgres_connection.options, "user": "env:ASKED_USER"}
    stranger = Connection("postgres", options, "test")
    with pytest.raises(RowsUnreadable) as refusal:
        asked(pipeline(tmp_path, postgres("asked_latest"), stranger))
    assert "connect" in str(refusal.value)
    assert "nobody-should-see-this" not in str(refusal.value)


def test_a_table_in_redis_is_asked(
    spark: SparkSession, redis_connection: Connection, tmp_path: Path
) -> None:
    both_ways(pipeline(tmp_path, redis("asked_latest"), redis_connection))
