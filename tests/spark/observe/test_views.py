from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater import Pipeline
from headwater.connectors import json
from headwater.errors import TooManyRows
from headwater.observe import live_sql
from headwater.observe.datasets import table_data
from headwater.observe.live_sql import Answer, answer
from headwater.settings import Settings


def asked(folder: Path, question: str) -> Answer:
    app = Pipeline("app")
    app.source("signals", json("in"), schema="device string, celsius double")

    @app.view
    def warm(signals: DataFrame) -> DataFrame:
        return signals.where("celsius > 20")

    app.table(name="stored")(lambda warm: warm)
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in/1.json").write_text(
        '{"device": "a", "celsius": 19.0}\n{"device": "b", "celsius": 21.0}\n'
        '{"device": "c", "celsius": 22.0}\n'
    )
    definitions, settings = app.definitions(), Settings(folder)
    return answer(question, lambda name: table_data(definitions, settings, name), ["warm"])


def test_a_view_is_what_its_sources_give_now(spark: SparkSession, tmp_path: Path) -> None:
    found = asked(tmp_path, "SELECT count(*), max(celsius) FROM warm")
    assert found.rows == ((2, 22.0),)


def test_part_of_the_rows_gives_no_answer(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_sql, "MOST_ROWS", 1)
    assert asked(tmp_path, "SELECT count(*) FROM warm").rows == ((2,),)
    with pytest.raises(TooManyRows):
        asked(tmp_path, "SELECT count(*) FROM warm a CROSS JOIN warm b")
