"""The query of `bench start`, as one would write it by hand, with the same settings."""

from pathlib import Path

from settings_of_headwater import session

spark = session()
frame = spark.readStream.schema("id long, name string").json("in")
query = (
    frame.groupBy("name")
    .count()
    .withColumnRenamed("count", "n")
    .writeStream.format("delta")
    .outputMode("complete")
    .option("checkpointLocation", str(Path("checkpoint").resolve()))
    .start(str(Path("table").resolve()))
)
query.awaitTermination()
