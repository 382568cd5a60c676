"""The Yahoo streaming benchmark through Headwater, with its defaults."""

import json
import shutil
import sys
import time

from measuring import tell
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import csv, kafka

arguments = json.loads(sys.argv[1])
shutil.rmtree(".headwater/yahoo", ignore_errors=True)
yahoo = Pipeline("yahoo")
yahoo.source(
    "events",
    kafka(arguments.get("source", "events")),
    schema="user_id string, page_id string, ad_id string, ad_type string, "
    "event_type string, event_time timestamp, ip_address string",
    event_time="event_time",
    watermark="1 minute",
)
yahoo.lookup("ads", csv("ads.csv"), schema="ad_id string, campaign_id string")


@yahoo.table(into=kafka(arguments["topic"]), mode="update")
def views(events: DataFrame, ads: DataFrame) -> DataFrame:
    return (
        events.where("event_type = 'view'")
        .join(F.broadcast(ads), "ad_id")
        .groupBy(F.window("event_time", "10 seconds"), "campaign_id")
        .agg(F.count("*").alias("n"), F.unix_millis(F.max("event_time")).alias("newest_ms"))
        .select("campaign_id", F.unix_seconds("window.start").alias("window_s"), "n", "newest_ms")
    )


if arguments.get("live"):
    run = yahoo.start()
    print("running", flush=True)
    sys.stdin.readline()
    run["views"].streaming_query.processAllAvailable()
    run.stop()
    run.raise_failure()
else:
    yahoo.plan()  # starts Spark, which is not what is compared
    began = time.perf_counter()
    yahoo.refresh()
    tell(seconds=time.perf_counter() - began)
session = SparkSession.getActiveSession()
assert session is not None
session.stop()
