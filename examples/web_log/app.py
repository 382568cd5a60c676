"""A web server's log: the three busiest addresses of the last 30 seconds, every 10 seconds."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import csv

web_log = Pipeline("web_log")

# A line of the log is a record of values separated by spaces.
web_log.source(
    "requests",
    csv("logs", header=False, options={"sep": " "}),
    schema="at timestamp, ip string, status int, method string, url string, seconds double",
    event_time="at",
    watermark="5 seconds",
)
web_log.lookup("countries", csv("countries.csv"), schema="ip string, country string")


def last_30_seconds() -> Column:
    return F.window("at", "30 seconds", "10 seconds")


@web_log.view
def busiest(requests: DataFrame) -> DataFrame:
    """The three addresses with most requests in each window, by rank.

    Spark has no row_number over a stream, but a second aggregation can gather the counts of a
    window, sort them and cut the list.
    """
    counts = requests.groupBy(last_30_seconds(), "ip").agg(F.count("*").alias("requests"))
    ranked = F.sort_array(
        F.collect_list(F.struct((-F.col("requests")).alias("order"), "ip", "requests"))
    )
    top = counts.groupBy("window").agg(F.slice(ranked, 1, 3).alias("top"))
    rows = top.select(F.col("window.end").alias("until"), F.posexplode("top").alias("place", "of"))
    return rows.select("until", (F.col("place") + 1).alias("rank"), "of.ip", "of.requests")


@web_log.table
def top_ips(busiest: DataFrame) -> DataFrame:
    return busiest


@web_log.table
def top_countries(busiest: DataFrame, countries: DataFrame) -> DataFrame:
    joined = busiest.join(countries, "ip", "left")
    return joined.select("until", "rank", "ip", "country", "requests")


@web_log.table(mode="update", key=["until", "ip"])
def traffic(requests: DataFrame) -> DataFrame:
    """Requests per window and address. A request is in three windows, but it is `newest`, one of
    the last 10 seconds, in one only: their sum counts every request once."""
    windowed = requests.withColumn("window", last_30_seconds())
    is_newest = F.col("at") >= F.col("window.end") - F.expr("INTERVAL 10 SECONDS")
    counts = windowed.groupBy("window", "ip").agg(
        F.count("*").alias("requests"), F.count_if(is_newest).alias("newest")
    )
    return counts.select(F.col("window.end").alias("until"), "ip", "requests", "newest")


@web_log.view
def top_totals(traffic: DataFrame, countries: DataFrame) -> DataFrame:
    """The three busiest of each window with all that they ever asked for, up to its end."""
    so_far = F.sum("newest").over(Window.partitionBy("ip").orderBy("until"))
    rank = F.row_number().over(Window.partitionBy("until").orderBy(F.desc("requests"), "ip"))
    ranked = traffic.select("until", rank.alias("rank"), "ip", "requests", so_far.alias("total"))
    joined = ranked.where("rank <= 3").join(countries, "ip", "left")
    return joined.select("until", "rank", "ip", "country", "requests", "total")
