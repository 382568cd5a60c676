"""The transformation, for both sources."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def count_words(lines: DataFrame) -> DataFrame:
    """How often each word stands in `value`. `split` makes a list of a line; without `explode`
    the lists would be counted, not the words."""
    words = lines.select(F.explode(F.split(F.lower("value"), r"\W+")).alias("word"))
    counts = words.where("word <> ''").groupBy("word").count()
    return counts.orderBy(F.desc("count"), "word")
