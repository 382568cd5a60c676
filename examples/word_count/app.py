"""Word count over a folder of text files."""

from __future__ import annotations

from pyspark.sql import DataFrame
from words import count_words

from headwater import Pipeline
from headwater.connectors import console, text

word_count = Pipeline("word_count")

# 1. Define the source.
word_count.source("lines", text("books"), max_per_batch="1 file")


# 3. Say where the result goes and in which mode; 4. and when a batch runs.
@word_count.table(into=console(rows=8), mode="complete", trigger="1 second", unbounded_state=True)
def words(lines: DataFrame) -> DataFrame:
    # 2. Transform.
    return count_words(lines)
