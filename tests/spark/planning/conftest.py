"""Queries of every kind over one small folder, and every sink, for the matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.connectors import console, delta, foreach, foreach_batch, memory, parquet
from headwater.connectors.interface import Connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "k long, at timestamp, n long"


@pytest.fixture(scope="module")
def one_partition(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture(scope="module")
def folder(one_partition: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("matrix") / "rows")
    rows = one_partition.range(3).selectExpr(
        "id AS k", "timestamp_seconds(id) AS at", "id * 10 AS n"
    )
    rows.coalesce(1).write.parquet(path)
    return path


@pytest.fixture(scope="module")
def rows(one_partition: SparkSession, folder: str) -> Callable[[], DataFrame]:
    """A new stream over the folder at each call: a join needs two."""
    return lambda: one_partition.readStream.schema(SCHEMA).parquet(folder)


@pytest.fixture(scope="module")
def queries(rows: Callable[[], DataFrame]) -> dict[str, DataFrame]:
    from pyspark.sql import functions as F

    def timed() -> DataFrame:
        return rows().withWatermark("at", "1 second")

    window = F.window("at", "1 second").alias("w")
    left, right = timed(), timed().selectExpr("k AS rk", "at AS rat")
    same = (left.k == right.rk) & (left["at"] == right.rat)
    chained = (
        timed().groupBy(window, "k").count().groupBy(F.window(F.window_time("w"), "5 seconds"))
    )
    return {
        "stateless": rows().select("k", "n"),
        "aggregation": rows().groupBy("k").count(),
        "aggregation with watermark": timed().groupBy(window, "k").count().select("k", "count"),
        "sorted aggregation": rows().groupBy("k").count().orderBy("k"),
        "session window": timed().groupBy(F.session_window("at", "1 second"), "k").count(),
        "chained aggregation": chained.agg(F.max("k").alias("k")).select("k"),
        "inner join": rows().join(rows().selectExpr("k", "n AS m"), "k"),
        "outer join": left.join(right, same, "leftOuter").select("k", "n"),
        "deduplication": rows().dropDuplicates(["k"]),
        "applyInPandasWithState": _grouped_in_pandas(rows()),
        "transformWithState": _with_processor(rows()),
        "sort": rows().orderBy("k"),
        "lookup join": rows().join(_static(rows()), "k"),
    }


def _static(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.range(3).withColumnRenamed("id", "k")


def _grouped_in_pandas(frame: DataFrame) -> DataFrame:
    import pandas as pd

    def count(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
        total = sum(len(frame) for frame in frames)
        state.update((total,))
        yield pd.DataFrame({"k": [key[0]], "c": [total]})

    grouped = frame.groupBy("k")
    return grouped.applyInPandasWithState(count, "k long, c long", "c long", "update", "NoTimeout")


def _with_processor(frame: DataFrame) -> DataFrame:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            pass

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Iterator[Row]:  # noqa: N802
            yield Row(k=key[0], c=len(list(rows)))

        def close(self) -> None:
            pass

    grouped = frame.groupBy("k")
    return grouped.transformWithState(Count(), "k long, c long", "update", "none")


@dataclass(frozen=True)
class SinkCase:
    """A sink as Headwater declares it, and the same in Spark's own words."""

    connector: Connector
    key: tuple[str, ...]
    writer: Callable[[DataFrame, Path], Any]


@pytest.fixture(scope="module")
def sink_cases() -> dict[str, SinkCase]:
    def format_at(name: str) -> Callable[[DataFrame, Path], Any]:
        return lambda frame, at: frame.writeStream.format(name).option("path", str(at / "out"))

    def ignore(frame: DataFrame, batch: int) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def each_batch(frame: DataFrame, at: Path) -> Any:
        return frame.writeStream.foreachBatch(ignore)

    return {
        "parquet": SinkCase(parquet("out"), (), format_at("parquet")),
        "delta": SinkCase(delta("out"), (), format_at("delta")),
        "delta with key": SinkCase(delta("out"), ("k",), format_at("delta")),
        "memory": SinkCase(memory(), (), lambda frame, at: _in_memory(frame, at)),
        "console": SinkCase(console(), (), lambda frame, at: frame.writeStream.format("console")),
        "foreach_batch": SinkCase(foreach_batch(ignore), (), each_batch),
        "foreach": SinkCase(
            foreach(_nothing), (), lambda frame, at: frame.writeStream.foreach(_nothing)
        ),
    }


def _nothing(row: Any) -> None:
    pass


def _in_memory(frame: DataFrame, at: Path) -> Any:
    return frame.writeStream.format("memory").queryName("q" + at.name.replace("-", "_"))
