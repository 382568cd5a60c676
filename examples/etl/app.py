"""Devices from JSON files: the strong signals, as Parquet files."""

from __future__ import annotations

from pyspark.sql import DataFrame

from headwater import Pipeline
from headwater.connectors import json, parquet

etl = Pipeline("etl")
etl.source(
    "devices",
    json("devices"),
    schema="device string, kind string, signal int",
    max_per_batch="1 file",
)


@etl.table(into=parquet("strong"))
def strong(devices: DataFrame) -> DataFrame:
    return devices.select("device", "signal").where("signal > 15")
