"""A batch program of plain PySpark: what is in the logs now."""

from __future__ import annotations

from errors import only_errors
from pyspark.sql import SparkSession

if __name__ == "__main__":
    spark = SparkSession.builder.config("spark.log.level", "ERROR").getOrCreate()
    only_errors(spark.read.text("logs")).orderBy("value").show(truncate=False)
