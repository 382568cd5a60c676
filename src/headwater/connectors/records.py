"""Text records parsed by a schema: which are rejected, and why.

A record is rejected when it does not parse, when a column declared NOT NULL or the event time is
null, or when it holds no value for any column of the schema. The verdict looks at every column of
the schema whichever the query needs, so that all queries over one source reject the same records.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from headwater.connectors.interface import REJECTED, OffsetRange, ReadRequest, struct_type
from headwater.schemas import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

CORRUPT = "__corrupt"
"""Column into which Spark's parsers put a record that they could not parse."""
_ROW, _TEXT, _LATEST = "__row", "__text", "__latest"


def too_far_ahead(name: str, event_time: Column, latest: Column) -> Column:
    """In words, that an event lies further ahead than its source allows; NULL where not."""
    from pyspark.sql import functions as F

    shown = F.concat(
        F.lit(f"event time {name}: "),
        event_time.cast("string"),
        F.lit(" is after "),
        latest.cast("string"),
        F.lit(", the latest that max_ahead allows"),
    )
    return F.when(event_time > latest, shown)


def latest_of(arrived: Column, max_ahead_ms: int) -> Column:
    """The latest event time of a record that arrived at a moment."""
    from pyspark.sql import functions as F

    return arrived + F.make_dt_interval(secs=F.lit(max_ahead_ms / 1000))


def latest_in(
    request: ReadRequest, part: OffsetRange | None, *, arrival: Column | None
) -> Column | None:
    """The latest event time of records of a part (None: by each record's own arrival, if known)."""
    from pyspark.sql import functions as F

    moment = arrival if part is None else F.timestamp_millis(F.lit(part.at_ms))
    if request.max_ahead_ms is None or moment is None:
        return None
    return latest_of(moment, request.max_ahead_ms)


class RecordFormat(enum.Enum):
    JSON = "JSON"
    CSV = "CSV"


@dataclass(frozen=True, slots=True)
class RecordParser:
    """Turns text into rows. `schema` is the user's; `options` are those of Spark's parser."""

    format: RecordFormat
    schema: str
    event_time: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def columns(self) -> StructType:
        """The user's columns as a reader can deliver them: all nullable."""
        from pyspark.sql.types import StructField, StructType

        declared = struct_type(self.schema)
        return StructType([StructField(column.name, column.dataType) for column in declared])

    def columns_with_corrupt(self) -> StructType:
        return self.columns().add(CORRUPT, "string")

    def parser_options(self) -> dict[str, str]:
        fixed = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        return {**self.options, **fixed}

    def parsed(self, text: Column) -> Column:
        """A struct of the schema's columns and `CORRUPT`."""
        return self._from_text(text, self.columns_with_corrupt())

    def verdict(self, frame: DataFrame) -> DataFrame:
        """`frame`, which has the schema's columns and `CORRUPT`, with `REJECTED` instead of it."""
        return frame.withColumn(REJECTED, self.is_rejected(frame[CORRUPT])).drop(CORRUPT)

    def is_rejected(self, corrupt: Column) -> Column:
        """The verdict over the parsed columns."""
        from pyspark.sql import functions as F

        missing = {name: F.col(quoted(name)).isNull() for name in self.columns().names}
        nothing = list(missing.values())
        # A plain AND would be absorbed by the optimizer, which would then not read every column.
        is_empty = F.least(*nothing) if len(nothing) > 1 else nothing[0]
        needed = [missing[name] for name in self._required()]
        return reduce(lambda one, other: one | other, needed, corrupt.isNotNull() | is_empty)

    def rejected(self, frame: DataFrame, text: Column, latest: Column | None = None) -> DataFrame:
        """The rows of `frame` whose record `text` is rejected, with the `reason`; events after
        `latest` are, too. Records are parsed once, and again and again only for the reason."""
        from pyspark.sql import functions as F

        kept = [F.struct("*").alias(_ROW), text.alias(_TEXT)]
        if latest is not None:
            kept.append(latest.alias(_LATEST))
        # A generator's output is computed once, however often later expressions mention it.
        parsed = frame.select(*kept, F.inline(F.array(self.parsed(text))))
        is_wrong = self.is_rejected(F.col(CORRUPT))
        if latest is not None and self.event_time is not None:
            is_ahead = F.col(quoted(self.event_time)) > F.col(_LATEST)
            is_wrong = is_wrong | F.coalesce(is_ahead, F.lit(False))
        reason = self.reason(F.col(_TEXT), None if latest is None else F.col(_LATEST))
        # Not filtered by the reason: Spark would ask it of every record before it parses them.
        told = F.coalesce(reason, F.lit("does not fit the schema")).alias("reason")
        return parsed.where(is_wrong).select(told, f"{_ROW}.*")

    def reason(self, text: Column, latest: Column | None = None) -> Column:
        """In words, why the record `text` is rejected; NULL where it is not. Events after
        `latest` are.

        Parses once per column and more, so it is for rejected records only.
        """
        from pyspark.sql import functions as F

        typed = self.parsed(text)
        texts = self._from_text(text, self._columns_as_text())
        reasons = [
            F.when(text.isNull(), "no value (tombstone)"),
            *self._unshaped(texts),
            *self._unreadable(typed, texts),
            F.when(typed[CORRUPT].isNotNull(), "a value inside a column does not fit its type"),
            *self._missing(typed),
            F.when(
                F.forall(F.array(*self._nulls(typed)), lambda is_null: is_null),
                "no value for any column of the schema",
            ),
        ]
        if latest is not None and self.event_time is not None:
            reasons.append(too_far_ahead(self.event_time, typed[self.event_time], latest))
        return F.coalesce(*reasons)

    def _unshaped(self, texts: Column) -> Iterable[Column]:
        """Wrong whatever the types are: no object, or another number of columns."""
        from pyspark.sql import functions as F

        problem = {
            RecordFormat.JSON: "not a JSON object",
            RecordFormat.CSV: f"not CSV of {len(self.columns())} columns",
        }
        yield F.when(texts[CORRUPT].isNotNull(), problem[self.format])

    def _unreadable(self, typed: Column, texts: Column) -> Iterable[Column]:
        from pyspark.sql import functions as F

        for column in self.columns():
            expected = column.dataType.simpleString()
            yield F.when(
                typed[column.name].isNull() & texts[column.name].isNotNull(),
                F.concat(
                    F.lit(f'column {column.name}: found "'),
                    texts[column.name],
                    F.lit(f'", expected {expected}'),
                ),
            )

    def _missing(self, typed: Column) -> Iterable[Column]:
        from pyspark.sql import functions as F

        for name in self._required():
            problem = f"column {name}: missing, declared NOT NULL"
            if name == self.event_time:
                problem = f"event time {name}: null"
            yield F.when(typed[name].isNull(), problem)

    def _nulls(self, typed: Column) -> list[Column]:
        return [typed[name].isNull() for name in self.columns().names]

    def _required(self) -> list[str]:
        return [
            column.name
            for column in struct_type(self.schema)
            if not column.nullable or column.name == self.event_time
        ]

    def _columns_as_text(self) -> StructType:
        from pyspark.sql.types import StringType, StructField, StructType

        names = [*self.columns().names, CORRUPT]
        return StructType([StructField(name, StringType()) for name in names])

    def _from_text(self, text: Column, columns: StructType) -> Column:
        from pyspark.sql import functions as F

        options = self.parser_options()
        if self.format is RecordFormat.JSON:
            return F.from_json(text, columns, options)
        return F.from_csv(text, F.lit(columns.toDDL()), options)
