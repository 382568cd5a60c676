"""A DStream handed to code that is written on DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark import RDD
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headwater.dstream.stream import DStream


class DataFrameStream:
    """A DataFrame per batch. Made by `DStream.toDF`."""

    def __init__(
        self, stream: DStream[Any], schema: StructType | str | list[str] | None = None
    ) -> None:
        self._stream = stream
        self._schema = schema
        self._functions: tuple[Callable[[DataFrame], DataFrame], ...] = ()

    def transform(self, func: Callable[[DataFrame], DataFrame]) -> DataFrameStream:
        """func of each DataFrame."""
        after = DataFrameStream(self._stream, self._schema)
        after._functions = (*self._functions, func)
        return after

    def foreachDF(self, func: Callable[[datetime, DataFrame], Any]) -> None:
        """func(time, frame) for each batch; one without rows counts where the schema has types."""

        def call(time: datetime, rdd: RDD[Any]) -> None:
            # Without types there is nothing to make an empty frame of.
            if isinstance(self._schema, list | None) and rdd.isEmpty():
                return
            func(time, self._frame(rdd))

        self._stream._output(call, "foreachDF")

    def saveAsDelta(self, path: str) -> None:
        """Appends each batch to a Delta table, once: a batch that is run again is recognised.

        A pipeline reads the table as a source: `iot.source(name, delta(path=…))`.
        """
        ssc = self._stream.context()
        # Not the number of the output: others may be added when the program changes.
        key = ssc._program.key_of_write(self._stream._node, path)

        def append(time: datetime, frame: DataFrame) -> None:
            writer = frame.write.format("delta").mode("append")
            writer = writer.option("txnAppId", f"dstream {ssc.runId} {key}")
            writer.option("txnVersion", ssc.batchId).save(path)

        self.foreachDF(append)

    def _frame(self, rdd: RDD[Any]) -> DataFrame:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.getOrCreate()
        schema: Any = self._schema
        frame = spark.createDataFrame(rdd, schema=schema)
        for function in self._functions:
            frame = function(frame)
        return frame
