"""A plain Spark session with the settings that Headwater would choose."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.jvm.jar import headwater_jar
from headwater.local.jars import JarSet, jar_paths
from headwater.runtime.session import spark_settings
from headwater.settings import load


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jars = [*jar_paths({JarSet.DELTA, JarSet.KAFKA}), headwater_jar()]
    builder = SparkSession.builder.config(
        "spark.driver.extraClassPath", os.pathsep.join(map(str, jars))
    )
    for setting in spark_settings(load(Path.cwd())):
        builder = builder.config(setting.key, setting.value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark
