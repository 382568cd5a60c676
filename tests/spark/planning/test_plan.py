"""What a plan decides, refuses and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater import Pipeline
from headwater.connectors import console, csv, kafka, memory, parquet, rate
from headwater.definitions import OutputMode, Trigger
from headwater.errors import (
    CheckpointNotResumable,
    ConnectionMissing,
    KeyUnknown,
    ModeImpossible,
    NoModeFits,
    NotReadable,
    NotStreamable,
    PathMissing,
    TriggerImpossible,
    UnknownTable,
)
from headwater.planning import render
from headwater.settings import Settings

ROWS = memory(rows=[(1,), (2,)])


@pytest.fixture
def app(spark: Any, tmp_path: Path) -> Pipeline:
    app = Pipeline("app", settings=Settings(folder=tmp_path, master="local[2]"))
    app.source("numbers", ROWS, schema="value long")
    return app


def test_a_query_without_state_is_appended_to_a_managed_table(app: Pipeline) -> None:
    app.sql("t", "SELECT value FROM numbers")
    found = app.plan().tables["t"]
    assert found.query.mode is OutputMode.APPEND
    assert found.query.is_managed
    assert found.decisions is not None
    assert found.decisions.facts.kinds == ()


def test_an_aggregation_with_a_key_is_updated(app: Pipeline) -> None:
    app.sql(
        "t",
        "SELECT value, count(*) AS c FROM numbers GROUP BY value",
        key="value",
        unbounded_state=True,
    )
    found = app.plan().tables["t"]
    assert found.query.mode is OutputMode.UPDATE
    assert found.decisions is not None
    assert found.decisions.facts.kinds == ("aggregation",)
    assert "grows without bound" in found.decisions.notes[0]


def test_an_aggregation_without_key_is_written_whole(app: Pipeline) -> None:
    app.sql("t", "SELECT value, count(*) AS c FROM numbers GROUP BY value", unbounded_state=True)
    found = app.plan().tables["t"]
    assert found.query.mode is OutputMode.COMPLETE
    assert found.decisions is not None
    assert "not append: not for streaming aggregations without watermark" in (
        found.decisions.mode.reason
    )


def test_no_mode_fits_an_aggregation_into_files(app: Pipeline) -> None:
    app.sql("t", "SELECT count(*) AS c FROM numbers", into=parquet("out"))
    with pytest.raises(NoModeFits) as refusal:
        app.plan()
    assert "watermark" in str(refusal.value.remedy)


def test_a_mode_asked_for_in_vain_is_refused(app: Pipeline) -> None:
    app.sql("t", "SELECT count(*) AS c FROM numbers", mode="append")
    with pytest.raises(ModeImpossible):
        app.plan()


def test_what_no_stream_can_do_is_refused_in_sparks_words(app: Pipeline) -> None:
    app.sql("t", "SELECT value FROM numbers ORDER BY value")
    with pytest.raises(NotStreamable, match="sorting is not supported") as refusal:
        app.plan()
    assert refusal.value.next_command == "headwater run --batch"


def test_a_table_of_lookups_alone_is_no_stream(app: Pipeline) -> None:
    app.lookup("fixed", ROWS, schema="value long")
    app.sql("t", "SELECT value FROM fixed")
    with pytest.raises(NotStreamable, match="reads no stream"):
        app.plan()


def test_a_key_must_be_in_the_result(app: Pipeline) -> None:
    app.sql("t", "SELECT value FROM numbers", key="valeu")
    with pytest.raises(KeyUnknown, match="did you mean 'value'"):
        app.plan()


def test_an_unknown_table_names_the_nearest(app: Pipeline) -> None:
    app.sql("evens", "SELECT value FROM numbers")
    with pytest.raises(UnknownTable, match="did you mean 'evens'"):
        app.plan(tables=["even"])


def test_a_plan_of_some_tables_looks_at_what_they_read(app: Pipeline) -> None:
    app.sql("first", "SELECT value FROM numbers")
    app.sql("second", "SELECT value FROM first")
    app.sql("third", "SELECT value FROM numbers")
    assert list(app.plan(tables=["second"]).tables) == ["second"]


def test_an_updated_table_is_read_as_a_lookup(app: Pipeline) -> None:
    app.sql(
        "counts",
        "SELECT value, count(*) AS c FROM numbers GROUP BY value",
        key="value",
        unbounded_state=True,
    )
    app.sql("joined", "SELECT n.value, c FROM numbers n JOIN counts USING (value)")
    decisions = app.plan().tables["joined"].decisions
    assert decisions is not None
    assert "read as a lookup" in decisions.notes[-1]


def test_a_table_that_is_read_must_be_readable(app: Pipeline) -> None:
    app.sql("shown", "SELECT value FROM numbers", into=console())
    app.sql("t", "SELECT value FROM shown")
    with pytest.raises(NotReadable, match="only Delta tables and files"):
        app.plan()


def test_a_trigger_asked_for_in_vain_names_the_possible_ones(app: Pipeline) -> None:
    app.sql("t", "SELECT value FROM numbers", trigger="continuous 1 second")
    with pytest.raises(TriggerImpossible) as refusal:
        app.plan()
    assert refusal.value.expected == "one of: default, processing time, once, available now"
    assert app.plan(trigger=Trigger.once()).queries[0].trigger == Trigger.once()


def test_real_time_is_refused_with_every_reason(app: Pipeline) -> None:
    app.source("ticks", rate())
    counted = "SELECT count(*) AS c FROM ticks"
    app.sql("t", counted, trigger="real time 5 seconds", mode="complete", unbounded_state=True)
    with pytest.raises(TriggerImpossible) as refusal:
        app.plan()
    for reason in ("ticks", "delta table", "aggregation", "complete mode"):
        assert reason in str(refusal.value.found)


def test_a_plan_needs_no_broker_but_a_start_does(app: Pipeline) -> None:
    app.source("signals", kafka("signals"), schema="device string")
    app.sql("t", "SELECT device FROM signals")
    plan = app.plan()
    assert "connection 'kafka' is not known" in render.as_text(plan)
    with pytest.raises(ConnectionMissing):
        plan.require_startable()


def test_a_missing_lookup_file_is_named(app: Pipeline) -> None:
    app.lookup("sites", csv("sites.csv"))
    app.sql("t", "SELECT value FROM numbers JOIN sites USING (value)")
    with pytest.raises(PathMissing):
        app.plan()


def test_a_checkpoint_is_new_and_then_resumes(app: Pipeline) -> None:
    app.sql("t", "SELECT value FROM numbers", into=memory())
    first = app.plan().tables["t"].decisions
    assert first is not None
    assert str(first.checkpoint) == "new"
    app.refresh()
    second = app.plan()
    decisions = second.tables["t"].decisions
    assert decisions is not None
    assert str(decisions.checkpoint) == "resumes after batch 0"
    with pytest.raises(CheckpointNotResumable):
        second.require_startable()


def test_a_plan_for_a_batch_asks_spark_nothing(app: Pipeline) -> None:
    app.sql("t", "SELECT value FROM numbers ORDER BY value")
    plan = app.plan(for_batch=True)
    assert [query.name for query in plan.queries] == ["t"]
    assert plan.tables["t"].decisions is None


def test_the_text_says_all_that_was_decided(app: Pipeline) -> None:
    app.sql(
        "t",
        "SELECT value, count(*) AS c FROM numbers GROUP BY value",
        key="value",
        unbounded_state=True,
    )
    plan = app.plan()
    text = render.as_text(plan)
    labels = ("sink", "mode", "trigger", "guarantee", "state", "checkpoint", "connections")
    for label in labels:
        assert f"\n  {label} " in text
    assert "\n              as long as nobody restores an earlier version" in text
    assert "not continuous: numbers" in text
    assert "StateStoreSave" in render.explain_text(plan, "t")
    assert "spark.sql.shuffle.partitions = " in render.settings_text(plan)
