"""A stream: the errors in every new log file."""

from __future__ import annotations

from errors import only_errors
from pyspark.sql import DataFrame

from headwater import Pipeline
from headwater.connectors import console, text

one_function = Pipeline("one_function")
one_function.source("lines", text("logs"))
one_function.view(name="errors")(only_errors)


@one_function.table(into=console(truncate=False))
def alarms(errors: DataFrame) -> DataFrame:
    return errors
