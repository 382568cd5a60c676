"""A program that does a little of everything, so that its JVM loads what real ones will.

Run by `class_archive`: python -m headwater.runtime.training FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.local.jars import JarSet
from headwater.runtime.session import open_session
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OF_CONNECTORS = (
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "org.apache.spark.sql.kafka010.KafkaMicroBatchStream",
    "org.apache.kafka.clients.consumer.KafkaConsumer",
    "org.apache.kafka.clients.producer.KafkaProducer",
    "org.apache.kafka.clients.admin.KafkaAdminClient",
    "org.postgresql.Driver",
)


def train(folder: Path) -> None:
    settings = Settings(folder=folder, master="local[2]", driver_memory="1g")
    spark = open_session(settings, [JarSet.DELTA, JarSet.KAFKA, JarSet.POSTGRES])
    for name in _OF_CONNECTORS:
        _load(spark, name)
    _stream(spark, folder)
    _end(spark)


def _stream(spark: SparkSession, folder: Path) -> None:
    """Files to a Delta table by event time, with state and a function for every batch."""
    from pyspark.sql import functions as F

    rows, table = str(folder / "rows"), str(folder / "table")
    signals = spark.createDataFrame(
        [('{"device": "d1", "at": 1, "celsius": 20.5}',)], "value string"
    )
    signals.write.text(rows)
    schema = "device string, at long, celsius double"
    read = spark.readStream.text(rows).select(F.inline(F.array(F.from_json("value", schema))))
    timed = read.withColumn("at", F.timestamp_seconds("at")).withWatermark("at", "1 minute")
    means = timed.groupBy(F.window("at", "1 minute"), "device").agg(
        F.avg("celsius").alias("celsius")
    )

    def store(batch: DataFrame, number: int) -> None:
        batch.write.format("delta").mode("append").save(table)

    for number in range(2):
        writer = means.writeStream.outputMode("update").foreachBatch(store)
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint{number}")
        writer.trigger(availableNow=True).start().awaitTermination()
    spark.read.format("delta").load(table).groupBy("device").count().toArrow()


def _load(spark: SparkSession, name: str) -> None:
    jvm: Any = spark._jvm
    jvm.java.lang.Class.forName(name)


def _end(spark: SparkSession) -> None:
    """Returns when the JVM has ended: it writes its classes last."""
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    train(Path(sys.argv[1]))
