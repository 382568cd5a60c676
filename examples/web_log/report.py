"""Prints what the stream has stored so far; run it at any time, also while the stream runs."""

from __future__ import annotations

from pathlib import Path

from app import top_totals, web_log
from pyspark.sql import DataFrame, SparkSession

from headwater.observe.grid import grid


def reports(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    """The three results by name, from the tables below `folder`."""
    stored = {
        name: spark.read.format("delta").load(f"{folder}/.headwater/web_log/tables/{name}")
        for name in ("top_ips", "top_countries", "traffic")
    }
    countries = spark.read.csv(f"{folder}/countries.csv", header=True)
    return {
        "top_ips": stored["top_ips"],
        "top_countries": stored["top_countries"],
        "top_totals": top_totals(stored["traffic"], countries),
    }


if __name__ == "__main__":
    for name, frame in reports(web_log.plan().spark, Path.cwd()).items():
        print(f"{name}\n{grid(frame.columns, frame.orderBy('until', 'rank').collect())}\n")
