from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


@pytest.mark.parametrize(("module", "is_noted"), [("app", True), ("headwater.sample", False)])
def test_errors_name_the_lines_of_users_only(
    spark: SparkSession, module: str, is_noted: bool
) -> None:
    made: dict[str, Any] = {"__name__": module}
    source = "def divided(F): return F.lit(1) / F.col('id')"
    exec(compile(source, "sample.py", "exec"), made)
    with pytest.raises(ArithmeticException) as raised:
        spark.range(1).select(made["divided"](F)).collect()
    assert ("sample.py:1" in str(raised.value)) == is_noted
