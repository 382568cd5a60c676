"""A model of scikit-learn, scored by a vectorised function."""

from __future__ import annotations

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sklearn.ensemble import IsolationForest

from headwater import Pipeline
from headwater.connectors import memory
from headwater.learning import loaded
from headwater.testing import Harness, add, check_new, crash, process, restart, train

USUAL = [("a", 20.0 + value / 10) for value in range(40)]


def app() -> Pipeline:
    made = Pipeline("odd_ones")
    made.source("signals", memory(), schema="device string, celsius double")

    @made.table
    def raw(signals: DataFrame) -> DataFrame:
        return signals

    @made.model(trained_on="raw")
    def forest(raw: DataFrame) -> IsolationForest:
        values = raw.select("celsius").toPandas().to_numpy()
        return IsolationForest(n_estimators=20, random_state=1).fit(values)

    @F.pandas_udf("boolean")
    def is_odd(celsius: pd.Series, path: pd.Series) -> pd.Series:
        if not path.iloc[0]:
            return pd.Series([None] * len(celsius))
        found = loaded(path.iloc[0]).predict(celsius.to_frame().to_numpy())
        return pd.Series(found == -1)

    @made.table
    def judged(signals: DataFrame, forest: DataFrame) -> DataFrame:
        read = signals.join(F.broadcast(forest), F.lit(True), "left")
        return read.select("celsius", is_odd("celsius", "path").alias("is_odd"), "model_version")

    return made


def test_an_isolation_forest_finds_what_is_unusual(spark: SparkSession) -> None:
    Harness(app(), spark=spark).run(
        add("signals", USUAL),
        process(),
        check_new("judged", [(celsius, None, None) for _, celsius in USUAL]),
        train("forest"),
        add("signals", [("a", 22.0), ("a", 95.0)]),
        process(),
        check_new("judged", [(22.0, False, 1), (95.0, True, 1)]),
        crash("after_sink"),
        restart(),
        train("forest"),
        add("signals", [("a", 22.1)]),
        process(),
        check_new("judged", [(22.1, False, 2)]),
    )
