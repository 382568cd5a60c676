"""The Yahoo streaming benchmark as one would write it by hand, with Spark's own defaults."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

from measuring import tell
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater.local.jars import JarSet, jar_paths

arguments = json.loads(sys.argv[1])
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
checkpoint = Path("stock-checkpoint").resolve()
shutil.rmtree(checkpoint, ignore_errors=True)
spark = (
    SparkSession.builder.master("local[*]")
    .config("spark.driver.extraClassPath", os.pathsep.join(map(str, jar_paths({JarSet.KAFKA}))))
    .getOrCreate()
)
schema = (
    "user_id string, page_id string, ad_id string, ad_type string, "
    "event_type string, event_time timestamp, ip_address string"
)
began = time.perf_counter()
ads = spark.read.schema("ad_id string, campaign_id string").option("header", True).csv("ads.csv")
query = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", arguments["address"])
    .option("subscribe", arguments.get("source", "events"))
    .option("startingOffsets", "earliest")
    .load()
    .select(F.from_json(F.col("value").cast("string"), schema).alias("event"))
    .select("event.*")
    .withWatermark("event_time", "1 minute")
    .where("event_type = 'view'")
    .join(F.broadcast(ads), "ad_id")
    .groupBy(F.window("event_time", "10 seconds"), "campaign_id")
    .agg(F.count("*").alias("n"), F.unix_millis(F.max("event_time")).alias("newest_ms"))
    .select("campaign_id", F.unix_seconds("window.start").alias("window_s"), "n", "newest_ms")
    .select(F.to_json(F.struct("*")).alias("value"))
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", arguments["address"])
    .option("topic", arguments["topic"])
    .option("checkpointLocation", str(checkpoint))
    .outputMode("update")
)
if arguments.get("live"):
    running = query.start()
    print("running", flush=True)
    sys.stdin.readline()
    running.processAllAvailable()
    running.stop()
else:
    query.trigger(availableNow=True).start().awaitTermination()
    tell(seconds=time.perf_counter() - began)
spark.stop()
