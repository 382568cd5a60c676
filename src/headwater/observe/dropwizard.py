"""Spark's own streaming metrics, read from the driver at each scrape."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headwater.observe.metrics import Family, Sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENABLED = "spark.sql.streaming.metricsEnabled"
_FAMILIES: Mapping[str, Family] = {
    "inputRate-total": Family(
        "spark_streaming_input_rate_rows_per_second", "gauge", "Spark: rows read per second"
    ),
    "processingRate-total": Family(
        "spark_streaming_processing_rate_rows_per_second", "gauge", "Spark: rows done per second"
    ),
    "latency": Family("spark_streaming_batch_duration_seconds", "gauge", "Spark: the last batch"),
    "eventTime-watermark": Family(
        "spark_streaming_watermark_timestamp_seconds", "gauge", "Spark: the watermark"
    ),
    "states-rowsTotal": Family("spark_streaming_state_rows", "gauge", "Spark: rows in state"),
    "states-usedBytes": Family("spark_streaming_state_bytes", "gauge", "Spark: memory of state"),
}
_IN_MS = ("latency", "eventTime-watermark")


def spark_samples(spark: SparkSession, tables: Sequence[str]) -> Callable[[], Iterator[Sample]]:
    """Asks Spark's registry; gives nothing where a query does not run or the driver is gone."""

    def samples() -> Iterator[Sample]:
        for table in tables:
            with contextlib.suppress(Exception):
                yield from _of_query(spark, table)

    return samples


def _of_query(spark: SparkSession, table: str) -> Iterator[Sample]:
    system = spark.sparkContext._jsc.sc().env().metricsSystem()
    sources = system.getSourcesByName(f"spark.streaming.{table}")
    if sources.isEmpty():
        return
    gauges = sources.last().metricRegistry().getGauges()
    for name, family in _FAMILIES.items():
        gauge = gauges.get(name)
        if gauge is not None:
            value = float(gauge.getValue())
            yield Sample(family, {"table": table}, value / 1000 if name in _IN_MS else value)
