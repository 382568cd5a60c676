"""The query of `bench overhead` as one would write it by hand, with the same settings."""

import json
import shutil
import sys
import time
from pathlib import Path

from measuring import driver_memory_mb, tell
from pyspark.sql import functions as F
from settings_of_headwater import session

arguments = json.loads(sys.argv[1])
folder = Path("plain").resolve()
shutil.rmtree(folder, ignore_errors=True)
spark = session()
began = time.perf_counter()
query = (
    spark.readStream.schema("device string, at timestamp, celsius double")
    .option("maxFilesPerTrigger", 2)
    .json("in")
    .withWatermark("at", "1 minute")
    .groupBy(F.window("at", "10 seconds"), "device")
    .count()
    .writeStream.format("delta")
    .outputMode("append")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start(f"{folder}/table")
)
query.awaitTermination()
seconds = time.perf_counter() - began
memory = driver_memory_mb(spark)
total = spark.read.format("delta").load(f"{folder}/table").agg(F.sum("count")).first()[0]
assert 0.95 * arguments["rows"] < total <= arguments["rows"], total
tell(seconds=seconds, memory_mb=memory)
spark.stop()
