"""The session is shared: no module leaves it with other settings than it had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def same_settings(spark: SparkSession) -> Iterator[None]:
    before = _settings(spark)
    yield
    assert _settings(spark) == before


def _settings(spark: SparkSession) -> dict[str, str]:
    """Those that decide how queries run; Delta leaves others behind."""
    return {key: spark.conf.get(key) for key in _CHECKED}


_CHECKED = (
    "spark.sql.shuffle.partitions",
    "spark.sql.adaptive.enabled",
    "spark.sql.session.timeZone",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.unsupportedOperationCheck",
)
