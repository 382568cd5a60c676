"""Readings into every sink, in every mode that it can do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import (
    delta,
    foreach_batch,
    json,
    kafka,
    mariadb,
    parquet,
    postgres,
    redis,
)
from headwater.connectors.foreach import advance_ledger

STORE = Path(__file__).parent / "readings.db"

sinks = Pipeline("every_sink")
sinks.source(
    "readings",
    json("data"),
    schema="id long, device string, at timestamp",
    event_time="at",
    watermark="1 minute",
)


@F.udf("string")
def shout(device: str) -> str:
    return device.upper()


@sinks.view
def shouted(readings: DataFrame) -> DataFrame:
    return readings.withColumn("device", shout("device"))


def minutes(readings: DataFrame) -> DataFrame:
    """Readings of each device per minute; too late ones are kept apart."""
    windows = F.window("at", "1 minute")
    counted = readings.groupBy(windows, "device").agg(F.sum("id").alias("total"))
    return counted.select("device", F.col("window.start").alias("minute"), "total")


def devices(readings: DataFrame) -> DataFrame:
    return readings.groupBy("device").agg(F.count("id").alias("n"), F.sum("id").alias("total"))


# Append: rows as they are, and minutes once they are closed.


@sinks.table(into=delta())
def delta_append(shouted: DataFrame) -> DataFrame:
    return shouted


@sinks.table(into=parquet("files"), mode="append")
def files_append(readings: DataFrame) -> DataFrame:
    return minutes(readings)


@sinks.table(into=kafka("sinks_append", create=True))
def kafka_append(shouted: DataFrame) -> DataFrame:
    return shouted


@sinks.table(into=postgres("sinks_append"))
def postgres_append(shouted: DataFrame) -> DataFrame:
    return shouted


@sinks.table(into=mariadb("sinks_append"), mode="append")
def mariadb_append(readings: DataFrame) -> DataFrame:
    return minutes(readings)


# Update: the minutes that changed.


@sinks.table(into=delta(), key=["device", "minute"], mode="update")
def delta_update(readings: DataFrame) -> DataFrame:
    return minutes(readings)


@sinks.table(into=kafka("sinks_update", create=True), key=["device", "minute"], mode="update")
def kafka_update(readings: DataFrame) -> DataFrame:
    return minutes(readings)


@sinks.table(into=postgres("sinks_update"), key=["device", "minute"], mode="update")
def postgres_update(shouted: DataFrame) -> DataFrame:
    return minutes(shouted)


@sinks.table(into=mariadb("sinks_update"), key=["device", "minute"], mode="update")
def mariadb_update(readings: DataFrame) -> DataFrame:
    return minutes(readings)


@sinks.table(into=redis("sinks_update"), key=["device", "minute"], mode="update")
def redis_update(readings: DataFrame) -> DataFrame:
    return minutes(readings)


# Complete: all devices, after every batch.


@sinks.table(into=delta(), mode="complete", unbounded_state=True)
def delta_complete(readings: DataFrame) -> DataFrame:
    return devices(readings)


@sinks.table(
    into=kafka("sinks_complete", create=True), key="device", mode="complete", unbounded_state=True
)
def kafka_complete(readings: DataFrame) -> DataFrame:
    return devices(readings)


@sinks.table(into=postgres("sinks_complete"), mode="complete", unbounded_state=True)
def postgres_complete(readings: DataFrame) -> DataFrame:
    return devices(readings)


@sinks.table(into=mariadb("sinks_complete"), mode="complete", unbounded_state=True)
def mariadb_complete(readings: DataFrame) -> DataFrame:
    return devices(readings)


@sinks.table(into=redis("sinks_complete"), key="device", mode="complete", unbounded_state=True)
def redis_complete(readings: DataFrame) -> DataFrame:
    return devices(readings)


# A function: rows and the number of their batch in one transaction of SQLite.


def store(frame: DataFrame, batch: int, query: str) -> None:
    with sqlite3.connect(STORE) as database:
        cursor = database.cursor()
        cursor.execute("CREATE TABLE IF NOT EXISTS readings (id INTEGER, device TEXT)")
        if advance_ledger(cursor, query, batch, mark="?"):
            rows = [(row.id, row.device) for row in frame.collect()]
            cursor.executemany("INSERT INTO readings VALUES (?, ?)", rows)


def stored(spark: SparkSession) -> DataFrame:
    with sqlite3.connect(STORE) as database:
        rows = database.execute("SELECT id, device FROM readings").fetchall()
    return spark.createDataFrame(rows, "id long, device string")


def clear() -> None:
    STORE.unlink(missing_ok=True)


@sinks.table(into=foreach_batch(store, idempotent=True, read=stored, clear=clear))
def function_append(readings: DataFrame) -> DataFrame:
    return readings
