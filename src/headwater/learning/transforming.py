"""Rows scored by a model of Spark ML, in the JVM, with one version per batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.connectors.interface import struct_type
from headwater.definitions import MODEL_VERSION
from headwater.errors import ModelDoesNotFit
from headwater.jvm.scoring import (
    NotByRow,
    no_rows,
    no_scorer,
    scored,
    scored_per_batch,
    scorer_of,
    sent,
)
from headwater.runtime.failures import first_line
from headwater.runtime.models import NONE, ColumnsDoNotFit, Reading, reading_of, widened
from headwater.schemas import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def transformed(frame: DataFrame, model: DataFrame, *, adds: str) -> DataFrame:
    """The rows with what a Spark ML model adds to them.

    `model` is the parameter that the function got for a model whose function returns a fitted
    `PipelineModel` or another transformer that Spark ML can save. `adds` names the columns to keep
    of what it computes, with their types; a vector becomes an `array<double>`. Each row also gets
    `model_version`. Before the first version all of them are null.

        transformed(signals, risk, adds="prediction double, probability array<double>")

    Every batch takes the version with which it was planned. Nothing of it runs in Python.
    """
    from pyspark.sql import functions as F

    reading = reading_of(model)
    if reading is None:
        found = "a DataFrame that is no model, or a model that was changed before"
        raise ModelDoesNotFit("transformed()", found)
    name, columns = reading.store.model.name, struct_type(adds)
    if reading.store.model.schema is not None:
        raise ModelDoesNotFit(f"model {name!r}", "its versions are rows, which are joined")
    taken = sorted({*columns.names, MODEL_VERSION} & set(frame.columns))
    if taken:
        raise ModelDoesNotFit(f"model {name!r}", f"the rows have a column {taken[0]} already")
    spark, row = frame.sparkSession, F.struct(*map(quoted, frame.columns))
    scorers = _Scorers(reading, frame.schema, columns)
    result = struct_type(adds).add(MODEL_VERSION, "long")
    if reading.is_fixed:
        added = scored(spark, row, scorers.now(), result)
    else:
        added = scored_per_batch(spark, row, scorers.of_batch, result)
    # As a generator, so that a filter on what it adds does not score every row once more.
    return frame.select("*", F.inline(added))


@dataclass
class _Scorers:
    """The scorers of a model's versions for rows of one schema; the last one that was sent."""

    reading: Reading
    schema: StructType
    adds: StructType
    _last: tuple[int, Any] | None = field(default=None, init=False)

    def now(self) -> Any:
        return self._made(self.reading.version(lambda version: None))

    def of_batch(self) -> bytes:
        """The handle of the scorer for the batch that is planned. A version that does not fit fails
        the batch before that is pinned to it."""
        return bytes(self._sent(self.reading.version(self._sent)).handle())

    def _sent(self, version: int) -> Any:
        if self._last is None or self._last[0] != version:
            self._last = (version, sent(self.reading.store.session, self._made(version)))
        return self._last[1]

    def _made(self, version: int) -> Any:
        from pyspark.sql import functions as F

        spark = self.reading.store.session
        if version == NONE:
            return no_scorer(spark, len(self.adds) + 1)
        what = f"version {version} of model {self.reading.store.model.name!r}"
        content = self.reading.store.content(version)
        if not hasattr(content, "transform"):
            raise ModelDoesNotFit(what, f"it is a {type(content).__name__}, no Spark ML model")
        try:
            frame = _kept(content.transform(no_rows(spark, self.schema)), self.adds)
            number = F.lit(version).cast("long").alias(MODEL_VERSION)
            return scorer_of(frame.select("*", number), what)
        except NotByRow as refused:
            found = f"its transform is not done row by row: {refused}"
            raise ModelDoesNotFit(what, found) from None
        except Exception as problem:
            # The transformer is the user's: it may raise anything.
            raise ModelDoesNotFit(what, first_line(problem)) from problem


def _kept(frame: DataFrame, adds: StructType) -> DataFrame:
    from pyspark.ml.functions import vector_to_array
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql import functions as F

    vectors = {one.name for one in frame.schema if isinstance(one.dataType, VectorUDT)}
    missing = [name for name in adds.names if name not in frame.columns]
    if missing:
        raise ColumnsDoNotFit(f"it gives no column {missing[0]}, but {', '.join(frame.columns)}")
    return widened(
        frame.select(
            *(
                vector_to_array(F.col(quoted(name))).alias(name)
                if name in vectors
                else F.col(quoted(name))
                for name in adds.names
            )
        ),
        adds,
    )
