"""Models: trained on what a table holds, published where better, one version per batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import memory, rate
from headwater.errors import InvalidModel, UnknownModel, UnknownVersion
from headwater.events import BatchCompleted, Event, ModelPublished, ModelRefused, ModelTrained
from headwater.learning import Trainer, loaded
from headwater.runtime.models import ModelStore
from headwater.runtime.storage import Storage
from headwater.settings import Settings
from headwater.testing import Harness, add, check, check_new, crash, process, restart, train
from headwater.testing.scene import Scene, Stage
from headwater.verification.trials import Trial
from headwater.verification.verifier import Verifier

MEANS = "device string, mean double"
A_ROWS = [("a", 10.0), ("a", 20.0)]


def means(raw: DataFrame) -> DataFrame:
    return raw.groupBy("device").agg(F.avg("celsius").alias("mean"))


def closeness(model: DataFrame, rows: DataFrame) -> float:
    """Minus the mean error: higher is better."""
    error = F.avg(F.abs(F.col("celsius") - F.col("mean")))
    found = rows.join(model, "device").agg(error).first()
    assert found is not None
    return -float(found[0])


def app(
    function: Callable[[DataFrame], Any] = means,
    settings: Settings | None = None,
    **arguments: Any,
) -> Pipeline:
    made = Pipeline("learning", settings=settings)
    made.source("signals", memory(rows=A_ROWS), schema="device string, celsius double")

    @made.table
    def raw(signals: DataFrame) -> DataFrame:
        return signals

    arguments = {"schema": MEANS} | arguments
    made.model(trained_on=raw, name="baseline", **arguments)(function)

    @made.table
    def scored(signals: DataFrame, baseline: DataFrame) -> DataFrame:
        off = (F.col("celsius") - F.col("mean")).alias("off")
        return signals.join(baseline, "device", "left").select("device", off, "model_version")

    return made


def test_a_model_is_empty_until_it_is_trained_and_picked_up_without_a_restart(
    spark: SparkSession,
) -> None:
    Harness(app(), spark=spark).run(
        add("signals", A_ROWS),
        process(),
        check_new("scored", [("a", None, None), ("a", None, None)]),
        train("baseline"),
        add("signals", [("a", 18.0)]),
        process(),
        check_new("scored", [("a", 3.0, 1)]),
    )


def test_a_batch_that_runs_again_takes_the_version_it_had(spark: SparkSession) -> None:
    with scene(app(), spark) as stage:
        stage.tape("signals").add(A_ROWS)
        stage.process()
        assert stage.train("baseline").version == 1
        stage.tape("signals").add([("a", 16.0)])
        stage.crash_before_sink(["scored"])
        # The new version is published while nothing runs: by `headwater model train`.
        rows = spark.createDataFrame([("a", 0.0)], MEANS)
        assert store_of(stage).publish_rows(rows) == 2
        stage.tape("signals").add([("a", 17.0)])
        stage.process()
        assert rows_of(stage, "scored")[2:] == [("a", 1.0, 1), ("a", 17.0, 2)]


@pytest.mark.parametrize("evaluate", [None, closeness])
def test_rows_that_are_older_than_the_history_are_not_looked_at(
    spark: SparkSession, evaluate: Callable[..., float] | None
) -> None:
    judged: list[int] = []

    def watched(model: DataFrame, rows: DataFrame) -> float:
        judged.append(rows.count())
        return closeness(model, rows)

    made = Pipeline("learning")
    made.source("signals", memory(), schema="device string, at timestamp, celsius double")
    made.table(name="raw")(lambda signals: signals)
    made.model(
        trained_on="raw",
        name="baseline",
        schema=MEANS,
        history="10 minutes of at",
        evaluate=evaluate and watched,
        held_back=0.5,
    )(means)
    old = [("a", f"11:{minute:02}:00", 100.0) for minute in range(51)]
    recent = [("a", f"11:{51 + minute % 9}:{minute:02}", 10.0) for minute in range(1, 50)]
    with scene(made, spark) as stage:
        stage.tape("signals").add([*old, *recent, ("a", "12:00:00", 10.0)])
        stage.process()
        assert stage.train("baseline").is_published
        assert [tuple(row) for row in store_of(stage).at(1).select("mean").collect()] == [(10.0,)]
        assert all(count < 50 for count in judged)
        assert bool(judged) == (evaluate is not None)


def test_a_history_of_no_column_is_refused_and_one_that_is_none_is_an_error(
    spark: SparkSession,
) -> None:
    reasons = {
        "at": "its history is of at; its table has device, celsius",
        "celsius": "its history is of celsius, which is no time",
    }
    for column, reason in reasons.items():
        heard: list[Event] = []
        with scene(app(history=f"10 minutes of {column}"), spark, heard) as stage:
            stage.tape("signals").add(A_ROWS)
            stage.process()
            assert not stage.train("baseline").is_published
        [refused] = [event for event in heard if isinstance(event, ModelRefused)]
        assert refused.reason == reason
    for text in ("10 minutes", "long of at", "0 seconds of at", "at"):
        with pytest.raises(InvalidModel, match="cannot be trained") as refusal:
            app(history=text)
        assert refusal.value.found == f"history is {text!r}"


def test_a_worse_version_is_refused_and_a_better_one_is_published(spark: SparkSession) -> None:
    mean = {"value": 1000.0}

    def constant(raw: DataFrame) -> DataFrame:
        return raw.select("device", F.lit(mean["value"]).alias("mean")).distinct()

    heard: list[Event] = []
    with scene(app(constant, evaluate=closeness, held_back=0.5), spark, heard) as stage:
        stage.tape("signals").add([("a", float(value)) for value in range(100)])
        stage.process()
        outcomes = {}
        for mean["value"] in (90.0, 95.0, 50.0):
            trained = stage.train("baseline")
            outcomes[mean["value"]] = (trained.is_published, store_of(stage).used().version)
        assert outcomes == {90.0: (True, 1), 95.0: (False, 1), 50.0: (True, 3)}
    [first, second] = [e for e in heard if isinstance(e, ModelPublished)]
    [refused] = [e for e in heard if isinstance(e, ModelRefused)]
    assert (first.previous, second.previous, second.version) == (0, 1, 3)
    assert second.score is not None
    assert second.previous_score is not None
    assert second.score > second.previous_score
    assert (refused.version, refused.running) == (2, 1)
    assert "is not above" in refused.reason
    assert [e.version for e in heard if isinstance(e, ModelTrained)] == [1, 2, 3]


def raising(raw: DataFrame) -> DataFrame:
    raise ZeroDivisionError("by hand")


REFUSALS: dict[str, tuple[Callable[[DataFrame], Any], str]] = {
    "raises": (raising, "ZeroDivisionError at "),
    "returns nothing": (lambda raw: None, "it returned nothing"),
    "returns no rows": (lambda raw: means(raw).where("false"), "it returned no rows"),
    "is no frame": (lambda raw: [1], "it returned a list"),
    "other columns": (lambda raw: raw, "it returned the columns device, celsius; declared are"),
    "other types": (
        lambda raw: raw.select("device", F.lit("x").alias("mean")),
        "column mean is a string; declared is double",
    ),
    "no number": (lambda raw: means(raw), "its score is nan"),
    "evaluation raises": (lambda raw: means(raw), "RuntimeError at "),
}


def test_whatever_goes_wrong_the_version_in_use_stays_and_the_reason_is_told(
    spark: SparkSession,
) -> None:
    with scene(app(), spark, models={"baseline": [("a", 15.0)]}) as stage:
        stage.tape("signals").add([("a", float(value)) for value in range(20)])
        stage.process()
        assert stage.run is not None
        model = store_of(stage).model
        for name, (function, reason) in REFUSALS.items():
            heard: list[Event] = []
            wrong = app(function, evaluate=EVALUATIONS.get(name), held_back=0.5)
            store = ModelStore(stage.storage, wrong.definitions().models["baseline"], stage.spark)
            trained = Trainer(store, lambda: stage.run.stored("raw"), heard.append).train()  # type: ignore[union-attr]
            assert trained is not None
            assert trained.problem is not None
            assert reason in trained.problem, name
            [refused] = [e for e in heard if isinstance(e, ModelRefused)]
            assert (refused.running, refused.reason) == (1, trained.problem)
        assert ModelStore(stage.storage, model).used().version == 1
        stage.tape("signals").add([("a", 16.0)])
        stage.process()
        assert rows_of(stage, "scored")[-1] == ("a", 1.0, 1)


def no_number(model: DataFrame, rows: DataFrame) -> float:
    return float("nan")


def failing(model: DataFrame, rows: DataFrame) -> float:
    raise RuntimeError("cannot judge")


EVALUATIONS = {"no number": no_number, "evaluation raises": failing}


def test_a_version_can_be_pinned_and_rolled_back_while_the_pipeline_runs(
    spark: SparkSession,
) -> None:
    heard: list[Event] = []
    with scene(app(), spark, heard) as stage:
        store, versions = store_of(stage), []
        stage.tape("signals").add(A_ROWS)
        stage.process()
        for step in ("train", "train", "rollback", "train", "pin 2", "unpin"):
            match step.split():
                case ["train"]:
                    stage.train("baseline")
                case ["rollback"]:
                    assert store.rollback() == 1
                case ["pin", version]:
                    store.pin(int(version))
                case ["unpin"]:
                    assert store.unpin() == 3
            stage.tape("signals").add([("a", 16.0)])
            stage.process()
            versions.append(rows_of(stage, "scored")[-1][-1])
        assert versions == [1, 2, 1, 1, 2, 3]
        with pytest.raises(UnknownVersion, match="there is no version 9"):
            store.pin(9)
    assert [e.is_waiting for e in heard if isinstance(e, ModelPublished)] == [False, False, True]


def test_a_batch_and_a_verification_take_the_version_in_use(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = app(settings=Settings(folder=tmp_path))
    storage = Storage(made.settings.storage_root, "learning")
    store = ModelStore(storage, made.definitions().models["baseline"], spark)
    assert [row["off"] for row in made.batch()["scored"].collect()] == [None, None]
    store.publish_rows(spark.createDataFrame([("a", 100.0)], MEANS))
    store.publish_rows(spark.createDataFrame([("a", 10.0)], MEANS))
    assert sorted(tuple(row) for row in made.batch()["scored"].collect()) == [
        ("a", 0.0, 2),
        ("a", 10.0, 2),
    ]
    store.pin(1)
    assert {row["model_version"] for row in made.batch()["scored"].collect()} == {1}
    verifier = Verifier(made, spark)
    with verifier._scene(Trial(())) as stage:
        stage.tape("signals").add([("a", 90.0)])
        stage.process()
        assert rows_of(stage, "scored") == [("a", -10.0, 1)]


def test_an_object_is_scored_by_a_vectorised_function(spark: SparkSession) -> None:
    made = Pipeline("objects")
    made.source("signals", memory(), schema="device string, celsius double")

    @made.table
    def raw(signals: DataFrame) -> DataFrame:
        return signals

    @made.model(trained_on="raw")
    def limits(raw: DataFrame) -> dict[str, float]:
        return {
            row["device"]: row["m"]
            for row in raw.groupBy("device").agg(F.max("celsius").alias("m")).collect()
        }

    @F.pandas_udf("boolean")
    def is_above(device, celsius, path):  # type: ignore[no-untyped-def]
        import pandas as pd

        known = [loaded(p) if p else {} for p in path]
        return pd.Series(
            [c > k.get(d, 1e9) for d, c, k in zip(device, celsius, known, strict=True)]
        )

    @made.table
    def flagged(signals: DataFrame, limits: DataFrame) -> DataFrame:
        read = signals.join(F.broadcast(limits), F.lit(True), "left")
        return read.select("device", is_above("device", "celsius", "path"), "model_version")

    Harness(made, spark=spark).run(
        add("signals", A_ROWS),
        process(),
        train("limits"),
        check_new("flagged", [("a", False, None), ("a", False, None)]),
        add("signals", [("a", 19.0), ("a", 21.0)]),
        process(),
        check_new("flagged", [("a", False, 1), ("a", True, 1)]),
        crash("after_sink"),
        restart(),
        check("flagged", [("a", False, None), ("a", False, None), ("a", False, 1), ("a", True, 1)]),
    )


def test_a_model_that_is_not_there_cannot_be_given_rows(spark: SparkSession) -> None:
    with pytest.raises(UnknownModel, match="baselin"):
        Harness(app(), spark=spark, models={"baselin": []}).run(process())


def test_a_running_pipeline_trains_on_its_schedule_and_a_stop_calls_it_off(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = Pipeline("scheduled", settings=Settings(folder=tmp_path))
    made.source("ticks", rate(rows_per_second=50))

    @made.table
    def raw(ticks: DataFrame) -> DataFrame:
        return ticks

    @made.model(trained_on="raw", every="1 second", schema="highest bigint")
    def top(raw: DataFrame) -> DataFrame:
        return raw.agg(F.max("value").alias("highest"))

    @made.table
    def seen(ticks: DataFrame, top: DataFrame) -> DataFrame:
        return ticks.join(F.broadcast(top), F.lit(True), "left").select("value", "model_version")

    published, scored = threading.Event(), threading.Semaphore(0)

    def report(event: Event) -> None:
        if isinstance(event, ModelPublished) and event.version == 2:
            published.set()
        if isinstance(event, BatchCompleted) and event.table == "seen" and published.is_set():
            scored.release()

    run = made.start(report=report)
    try:
        # The batch that runs while a version is published was planned before.
        assert all(scored.acquire(timeout=300) for _ in range(2))
    finally:
        run.stop()
    # The console and the doctor read them there.
    kept = "".join(log.read_text() for log in (tmp_path / ".headwater").rglob("*.jsonl"))
    assert '"ModelPublished"' in kept or "model_published" in kept
    assert run.stored("seen").where("model_version >= 2").count() > 0
    assert all(version.is_published for version in run.model("top").versions())


def test_a_model_is_trained_on_a_table() -> None:
    made = app()
    made.model(trained_on="signals", schema=MEANS, name="wrong")(means)
    with pytest.raises(InvalidModel, match="wrong"):
        made.plan()


def test_a_model_function_takes_the_rows_alone() -> None:
    with pytest.raises(InvalidModel) as refusal:
        app(lambda raw, other: raw)
    assert refusal.value.found == "its function takes 2 parameters"


class scene:  # noqa: N801 - reads as a word in a `with` statement
    """A pipeline under test, with what it reports."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        heard: list[Event] | None = None,
        models: Any = None,
    ) -> None:
        self._scene = Scene(pipeline, spark, Stage(models=models or {}))
        if heard is not None:
            self._scene.report = heard.append

    def __enter__(self) -> Scene:
        return self._scene

    def __exit__(self, *problem: Any) -> None:
        self._scene.close()


def store_of(stage: Scene) -> ModelStore:
    storage = Storage(stage.settings.storage_root, stage.definitions.pipeline)
    return ModelStore(storage, stage.definitions.models["baseline"], stage.spark)


def rows_of(stage: Scene, table: str) -> list[Any]:
    return [tuple(row) for row in stage.content(table).rows]
