"""The query of `bench overhead` through Headwater."""

import json
import shutil
import sys
import time

from measuring import driver_memory_mb, tell
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json as json_files

arguments = json.loads(sys.argv[1])
shutil.rmtree(".headwater", ignore_errors=True)
app = Pipeline("app")
app.source(
    "signals",
    json_files("in"),
    schema="device string, at timestamp, celsius double",
    event_time="at",
    watermark="1 minute",
    max_per_batch="2 files",
)


@app.table(mode="append")
def counts(signals: DataFrame) -> DataFrame:
    return signals.groupBy(F.window("at", "10 seconds"), "device").count()


app.plan()  # starts Spark, which is not what is compared
began = time.perf_counter()
app.refresh()
seconds = time.perf_counter() - began
spark = SparkSession.getActiveSession()
assert spark is not None
memory = driver_memory_mb(spark)
counted = spark.read.format("delta").load(".headwater/app/tables/counts").agg(F.sum("count"))
# The last minute stays open: its windows are behind no watermark.
total = counted.first()[0]  # type: ignore[index]
assert 0.95 * arguments["rows"] < total <= arguments["rows"], total
tell(seconds=seconds, memory_mb=memory)
spark.stop()
