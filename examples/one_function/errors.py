"""The one function, which knows nothing of streams or batches."""

from __future__ import annotations

from pyspark.sql import DataFrame


def only_errors(lines: DataFrame) -> DataFrame:
    return lines.where("value LIKE 'ERROR %'")
