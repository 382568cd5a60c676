"""Word count over lines from a socket: `send.py` in another terminal, or `nc -lk 9999`."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from words import count_words

from headwater import Pipeline
from headwater.connectors import console, socket

word_count = Pipeline("word_count_over_socket")
word_count.source("lines", socket("localhost", int(os.environ.get("WORD_COUNT_PORT", "9999"))))


@word_count.table(into=console(rows=8), mode="complete", trigger="1 second", unbounded_state=True)
def words(lines: DataFrame) -> DataFrame:
    return count_words(lines)
