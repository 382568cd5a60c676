"""A SparkContext with what Headwater's connectors need: a Java, the jars, this Python."""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark import SparkConf
from pyspark import SparkContext as _SparkContext

from headwater.local.jars import JarSet, jar_paths
from headwater.local.java import find_java

_DEFAULTS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.showConsoleProgress": "false",
}


class SparkContext(_SparkContext):
    """Spark's own, with Kafka and Delta on its class path. A plain one serves everything else."""

    def __init__(self, *arguments: Any, conf: SparkConf | None = None, **named: Any) -> None:
        os.environ["JAVA_HOME"] = str(find_java().home)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        make: Any = super().__init__
        make(*arguments, conf=_with_jars(conf or SparkConf()), **named)

    @classmethod
    def getOrCreate(cls, conf: SparkConf | None = None) -> _SparkContext:
        """The active context, or a new one."""
        return _SparkContext._active_spark_context or cls(conf=conf)


def _with_jars(conf: SparkConf) -> SparkConf:
    paths = [str(path) for path in jar_paths([JarSet.KAFKA, JarSet.DELTA])]
    given = conf.get("spark.jars")
    conf.set("spark.jars", ",".join([*paths, *([given] if given else [])]))
    classes = conf.get("spark.driver.extraClassPath")
    classes = os.pathsep.join([*paths, *([classes] if classes else [])])
    conf.set("spark.driver.extraClassPath", classes)
    for key, value in _DEFAULTS.items():
        conf.setIfMissing(key, value)
    return conf
