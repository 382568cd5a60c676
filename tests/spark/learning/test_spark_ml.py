"""Models of Spark ML: saved by Spark ML, scored in the JVM, one version per batch."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from pyspark.ml import Pipeline as Stages
from pyspark.ml import PipelineModel
from pyspark.ml.classification import LogisticRegression, RandomForestClassifier
from pyspark.ml.clustering import KMeans
from pyspark.ml.feature import SQLTransformer, StringIndexer, VectorAssembler
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import memory
from headwater.errors import ModelDoesNotFit, QueryFailedError, TrainingRefused
from headwater.events import Event, ModelPublished, ModelRefused
from headwater.learning import transformed
from headwater.runtime.models import ModelStore
from headwater.runtime.storage import Storage
from headwater.settings import Settings
from headwater.testing import Harness, add, check, check_new, crash, process, restart, train
from headwater.testing.scene import Scene, Stage

COLUMNS = "device string, celsius double, is_broken double"
COLD = [("a", float(value), 0.0) for value in range(10)]
HOT = [("b", 90.0 + value, 1.0) for value in range(10)]
ADDS = "prediction double, probability array<double>"


def fitted(rows: DataFrame) -> PipelineModel:
    features = VectorAssembler(inputCols=["celsius"], outputCol="features")
    return Stages(stages=[features, LogisticRegression(labelCol="is_broken")]).fit(rows)


def app(
    function: Any = fitted, *, adds: str = ADDS, settings: Settings | None = None, **arguments: Any
) -> Pipeline:
    made = Pipeline("risks", settings=settings)
    made.source("signals", memory(rows=[*COLD, *HOT]), schema=COLUMNS)

    @made.table
    def raw(signals: DataFrame) -> DataFrame:
        return signals

    made.model(trained_on=raw, name="risk", **arguments)(function)

    @made.table
    def scored(signals: DataFrame, risk: DataFrame) -> DataFrame:
        found = transformed(signals.select("device", "celsius"), risk, adds=adds)
        names = [name for name in found.columns if name != "probability"]
        if "probability" in found.columns:
            return found.select(*names, (F.col("probability")[1] > 0.5).alias("is_likely"))
        return found.select(*names)

    return made


def test_a_pipeline_of_spark_ml_scores_from_the_batch_after_its_training_on(
    spark: SparkSession,
) -> None:
    Harness(app(), spark=spark).run(
        add("signals", [*COLD, *HOT]),
        process(),
        check("scored", [(*row[:2], None, None, None) for row in [*COLD, *HOT]]),
        train("risk"),
        add("signals", [("c", 3.0, 0.0), ("d", 95.0, 0.0)]),
        process(),
        check_new("scored", [("c", 3.0, 0.0, 1, False), ("d", 95.0, 1.0, 1, True)]),
        train("risk"),
        crash("after_sink"),
        restart(),
        add("signals", [("e", 95.0, 0.0)]),
        process(),
        check_new("scored", [("e", 95.0, 1.0, 2, True)]),
    )


def test_a_batch_that_runs_again_is_scored_by_the_version_it_had(
    spark: SparkSession, tmp_path: Path
) -> None:
    with scene(app(adds="prediction double"), spark) as stage:
        stage.tape("signals").add([*COLD, *HOT])
        stage.process()
        assert stage.train("risk").version == 1
        stage.tape("signals").add([("c", 95.0, 1.0)])
        stage.crash_before_sink(["scored"])
        # A version that says the opposite is published while nothing runs.
        published(stage, fitted(labelled(spark, is_upside_down=True)), tmp_path / "other")
        stage.tape("signals").add([("d", 95.0, 1.0)])
        stage.process()
        assert rows_of(stage, "scored")[20:] == [("c", 95.0, 1.0, 1), ("d", 95.0, 0.0, 2)]


def test_a_version_that_does_not_fit_fails_the_batch_and_a_rollback_lets_it_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    with scene(app(adds="prediction double"), spark) as stage:
        stage.tape("signals").add([*COLD, *HOT])
        stage.process()
        stage.train("risk")
        clusters = KMeans(featuresCol="celsius_vector", predictionCol="cluster", k=2)
        vector = VectorAssembler(inputCols=["celsius"], outputCol="celsius_vector")
        other = Stages(stages=[vector, clusters]).fit(labelled(spark))
        published(stage, other, tmp_path / "other")
        stage.tape("signals").add([("c", 95.0, 1.0)])
        with pytest.raises(QueryFailedError, match="gives no column prediction"):
            stage.process()
        assert store_of(stage).rollback() == 1
        stage.restart()
        stage.process()
        assert rows_of(stage, "scored")[20:] == [("c", 95.0, 1.0, 1)]


def test_the_model_itself_is_evaluated_and_a_batch_takes_the_version_in_use(
    spark: SparkSession, tmp_path: Path
) -> None:
    scores: list[float] = []

    def accuracy(model: PipelineModel, rows: DataFrame) -> float:
        assert isinstance(model, PipelineModel)
        right = model.transform(rows).where("prediction = is_broken").count()
        scores.append(right / rows.count())
        return scores[-1]

    made = app(
        settings=Settings(folder=tmp_path),
        adds="prediction double",
        evaluate=accuracy,
        held_back=0.4,
    )
    made.refresh(tables=["raw"])
    assert made.train("risk") == 1
    with pytest.raises(TrainingRefused, match="is not above 1"):
        made.train("risk")
    assert scores == [1.0, 1.0, 1.0]
    found = made.batch()["scored"].where("prediction = 1").select("device", "model_version")
    assert {tuple(row) for row in found.collect()} == {("b", 1)}


# Which transformers, on rows that are all there


def test_trees_clusters_and_rows_that_a_stage_skips(spark: SparkSession, tmp_path: Path) -> None:
    rows = labelled(spark)
    indexed = StringIndexer(inputCol="device", outputCol="index", handleInvalid="skip")
    vector = VectorAssembler(inputCols=["celsius", "index"], outputCol="features")
    forest = RandomForestClassifier(labelCol="is_broken", numTrees=3, seed=1)
    clusters = KMeans(k=2, seed=1, predictionCol="cluster")
    model = Stages(stages=[indexed, vector, forest, clusters]).fit(rows)
    store = store_with(spark, tmp_path, model)
    given = spark.createDataFrame(
        [("a", 1.0), ("b", 95.0), ("new", 95.0)], "device string, celsius double"
    )
    found = transformed(given, store.at(1), adds="prediction double, cluster bigint, index double")
    expected = model.transform(given).select("device", "prediction", "cluster", "index")
    mine = found.select("device", "prediction", "cluster", "index")
    assert sorted(mine.collect()) == sorted(expected.collect())
    assert [row["model_version"] for row in found.collect()] == [1, 1]


def test_a_stage_after_trees_is_fitted_while_the_pipeline_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    def grown(rows: DataFrame) -> PipelineModel:
        vector = VectorAssembler(inputCols=["celsius"], outputCol="features")
        forest = RandomForestClassifier(labelCol="is_broken", numTrees=2, seed=1)
        clusters = KMeans(k=2, seed=1, predictionCol="cluster")
        return Stages(stages=[vector, forest, clusters]).fit(rows)

    told: SimpleQueue[Event] = SimpleQueue()

    def report(event: Event) -> None:
        if isinstance(event, ModelPublished | ModelRefused):
            told.put(event)

    made = app(grown, every="1 second", settings=Settings(folder=tmp_path))
    run = made.start(report=report)
    try:
        found = told.get(timeout=300)
    finally:
        run.stop()
    assert isinstance(found, ModelPublished), found


def test_what_is_not_done_row_by_row_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    mean = SQLTransformer(statement="SELECT avg(celsius) AS mean FROM __THIS__")
    store = store_with(spark, tmp_path, PipelineModel(stages=[mean]))
    with pytest.raises(ModelDoesNotFit, match="not done row by row: Aggregate"):
        transformed(labelled(spark), store.at(1), adds="mean double")


@pytest.mark.parametrize(
    ("adds", "problem"),
    [
        ("risk double", "it gives no column risk"),
        ("prediction int", "column prediction is a double; declared is int"),
        ("celsius double", "the rows have a column celsius already"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, adds: str, problem: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "columns"
    if not folder.exists():
        store_with(spark, folder, fitted(labelled(spark)))
    with pytest.raises(ModelDoesNotFit, match=problem):
        transformed(labelled(spark), store_at(spark, folder).at(1), adds=adds)


def test_what_is_no_model_of_spark_ml_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    store = store_with(spark, tmp_path, {"a": 1})
    with pytest.raises(ModelDoesNotFit, match="it is a dict, no Spark ML model"):
        transformed(labelled(spark), store.at(1), adds="prediction double")
    with pytest.raises(ModelDoesNotFit, match="no model, or a model that was changed"):
        transformed(labelled(spark), F.broadcast(store.at(1)), adds="prediction double")


def labelled(spark: SparkSession, *, is_upside_down: bool = False) -> DataFrame:
    rows = spark.createDataFrame([*COLD, *HOT], COLUMNS)
    return rows.withColumn("is_broken", 1 - F.col("is_broken")) if is_upside_down else rows


def store_at(spark: SparkSession, folder: Path) -> ModelStore:
    return ModelStore(Storage(str(folder), "risks"), app().definitions().models["risk"], spark)


def store_with(spark: SparkSession, folder: Path, content: Any) -> ModelStore:
    """A model with one version."""
    store = store_at(spark, folder)
    version = store.next_version()
    store.write(version, content)
    store.publish(version)
    return store


class scene:  # noqa: N801 - reads as a word in a `with` statement
    def __init__(self, pipeline: Pipeline, spark: SparkSession) -> None:
        self._scene = Scene(pipeline, spark, Stage())

    def __enter__(self) -> Scene:
        return self._scene

    def __exit__(self, *problem: Any) -> None:
        self._scene.close()


def published(stage: Scene, model: PipelineModel, folder: Path) -> None:
    model.save(str(folder))
    rows = stage.spark.createDataFrame([(str(folder),)], "path string")
    store_of(stage).publish_rows(rows)


def store_of(stage: Scene) -> ModelStore:
    storage = Storage(stage.settings.storage_root, stage.definitions.pipeline)
    return ModelStore(storage, stage.definitions.models["risk"], stage.spark)


def rows_of(stage: Scene, table: str) -> list[Any]:
    return [tuple(row) for row in stage.content(table).rows]
