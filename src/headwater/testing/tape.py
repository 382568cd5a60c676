"""A source that a test holds in its hand: rows are kept and can be read again from any point.

Spark's `MemoryStream` forgets the rows of committed batches, so every start of a query gets a new
one, filled with all that was added so far: its offsets are the same, and a batch that is run again
reads the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.connectors.interface import REJECTED, Connector, OffsetRange, ReadRequest
from headwater.definitions import LimitUnit
from headwater.errors import RawRecordsRefused
from headwater.jvm.classes import TYPES, java_class
from headwater.testing.values import arrow_table, moment, records, typed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headwater.connectors.records import RecordParser
    from headwater.testing.values import Rows

_STREAMS = "org.apache.spark.sql.execution.streaming"
MARKER = "__marker"
"""Column that says: this row only carries an event time."""
RAW = "__raw"
"""Column with the text of a record that is still to be parsed."""


@dataclass(frozen=True, slots=True)
class Raw:
    """The text of a record as it would come from a broker or a file. See `raw`."""

    text: str


def raw(text: str) -> Raw:
    """A record that the pipeline itself parses, so that it may be rejected.

    >>> raw('{"device": ')
    Raw(text='{"device": ')
    """
    return Raw(text)


class Tape:
    """Everything that a test has added to one source, batch after batch."""

    def __init__(self, name: str, schema: StructType, event_time: str | None) -> None:
        self.name = name
        self.schema = schema
        self.event_time = event_time
        self.parser: RecordParser | None = None
        """Set where records may be rejected: then rows pass through the parser's verdict."""
        self.batches: list[list[tuple[Any, ...]]] = []
        """Rows of the schema, then marker, then raw text."""
        self._streams: list[Any] = []
        self._java: list[Any] = []
        self._pushed = 0

    @property
    def is_empty(self) -> bool:
        return not self.batches

    def add(self, rows: Rows | Sequence[Raw]) -> int:
        """Adds rows in any form, or raw records, as one step of the source; how many."""
        given: Any = rows if isinstance(rows, str | Path) else list(rows)
        plain = [] if isinstance(given, str | Path) else [r for r in given if isinstance(r, Raw)]
        if plain:
            if self.parser is None or len(plain) != len(given):
                raise RawRecordsRefused(self.name, has_parser=self.parser is not None)
            nothing = (None,) * len(self.schema)
            self._append([(*nothing, False, record.text) for record in plain])
            return len(plain)
        what = f"source {self.name}"
        values = typed(records(given, self.schema.names, what=what), self.schema, what=what)
        self._append([(*row, False, None) for row in values])
        return len(values)

    def move(self, event_time: Any) -> None:
        """Lets the watermark see an event time without a row."""
        at = moment(event_time)
        row = [at if name == self.event_time else None for name in self.schema.names]
        self._append([(*row, True, None)])

    def newest(self) -> Any:
        """The newest event time that was added, markers included."""
        if self.event_time is None:
            return None
        index = self.schema.names.index(self.event_time)
        moments = [row[index] for batch in self.batches for row in batch]
        return max((moment for moment in moments if moment is not None), default=None)

    def first_moment(self) -> Any:
        if self.event_time is None or not self.batches:
            return None
        index = self.schema.names.index(self.event_time)
        return next((row[index] for row in self.batches[0] if row[index] is not None), None)

    def stream(self, spark: SparkSession) -> DataFrame:
        """A new stream over everything added so far and later."""
        from pyspark.sql import DataFrame

        kind = java_class(spark, f"{_STREAMS}.runtime.MemoryStream")
        stream = self._filled(spark, kind.apply(self._encoder(spark), spark._jsparkSession))
        self._streams.append((spark, stream))
        return DataFrame(stream.toDF(), spark)

    def unbatched(self, spark: SparkSession, *, is_continuous: bool) -> DataFrame:
        """The rows added so far as a stream for triggers that cut no batches."""
        self.push()
        from pyspark.sql import DataFrame

        kind = "ContinuousMemoryStream" if is_continuous else "LowLatencyMemoryStream"
        streams = java_class(spark, f"{_STREAMS}.sources.{kind}")
        stream = streams.apply(spark._jsparkSession, 1, self._encoder(spark))
        return DataFrame(self._filled(spark, stream).toDF(), spark).drop(MARKER, RAW)

    def _encoder(self, spark: SparkSession) -> Any:
        columns = java_class(spark, TYPES + "DataType").fromJson(self._columns().json())
        return java_class(spark, "org.apache.spark.sql.Encoders").row(columns)

    def _filled(self, spark: SparkSession, stream: Any) -> Any:
        for number in range(self._pushed):
            stream.addData(self._converted(spark, number))
        return stream

    def frame(self, spark: SparkSession, batches: slice = slice(None)) -> DataFrame:
        """The rows that are data, or those of some batches, as a bounded DataFrame."""
        rows = self._rows(self.batches[batches])
        table = arrow_table(rows, self._columns(), what=f"source {self.name}")
        return spark.createDataFrame(table, self._columns())

    def push(self) -> None:
        """Lets the running streams see what was added since."""
        for number in range(self._pushed, len(self.batches)):
            for spark, stream in self._streams:
                stream.addData(self._converted(spark, number))
        self._pushed = len(self.batches)

    def _append(self, rows: list[tuple[Any, ...]]) -> None:
        # A row that does not fit is told where it is added.
        arrow_table(rows, self._columns(), what=f"source {self.name}")
        self.batches.append(rows)

    def _converted(self, spark: SparkSession, number: int) -> Any:
        """A batch's rows in the JVM."""
        if number == len(self._java):
            rows = self.batches[number]
            table = arrow_table(rows, self._columns(), what=f"source {self.name}")
            found = spark.createDataFrame(table, self._columns())._jdf.collectAsList()
            convert = java_class(spark, "scala.jdk.javaapi.CollectionConverters")
            self._java.append(convert.asScala(found).toSeq())
        return self._java[number]

    def _columns(self) -> StructType:
        from pyspark.sql.types import StructField, StructType

        columns = [StructField(c.name, c.dataType) for c in self.schema.fields]
        return StructType(columns).add(MARKER, "boolean").add(RAW, "string")

    def _rows(self, batches: Sequence[list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        return [row for batch in batches for row in batch if not row[-2]]

    def texts(self, batches: slice) -> list[str]:
        """The records of some batches as text, those that came as rows too."""
        return [self._text(row) for row in self._rows(self.batches[batches])]

    def _text(self, row: tuple[Any, ...]) -> str:
        if row[-1] is not None:
            return str(row[-1])
        pairs = zip(self.schema.names, row, strict=False)
        return json.dumps({k: v for k, v in pairs if v is not None}, default=str)


@dataclass(frozen=True, slots=True)
class TapeSource(Connector):
    """Stands in for the source's own connector."""

    system: ClassVar[str] = "tape"
    reads_streams: ClassVar[bool] = True
    reads_batches: ClassVar[bool] = True
    is_replayable: ClassVar[bool] = True
    limit_units: ClassVar[frozenset[LimitUnit]] = frozenset(LimitUnit)

    tape: Tape = field(hash=False)

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        return self.tape.stream(spark).drop(RAW)

    def is_data(self) -> Column | None:
        from pyspark.sql import functions as F

        return ~F.col(MARKER)

    def below_watermark(self, frame: DataFrame, request: ReadRequest) -> DataFrame:
        from pyspark.sql import functions as F

        is_data = ~F.col(MARKER)
        if self.tape.event_time is not None:
            # A filter that does not mention the event time would be pushed below the watermark,
            # which would then not see the marker.
            is_data = is_data | F.col(self.tape.event_time).isNull()
        return frame.where(is_data).drop(MARKER)

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        return self.tape.frame(spark).drop(MARKER, RAW)

    def describe(self) -> str:
        return "rows of a test"


@dataclass(frozen=True, slots=True)
class ParsedTapeSource(TapeSource):
    """The same where records may be rejected."""

    parses: ClassVar[bool] = True

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        return self._judged(self.tape.stream(spark))

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        return self._judged(self.tape.frame(spark)).drop(MARKER)

    def read_rejected(
        self, spark: SparkSession, request: ReadRequest, part: OffsetRange | None
    ) -> DataFrame:
        from pyspark.sql import functions as F

        parser = self.tape.parser
        assert parser is not None
        batches = slice(None)
        if part is not None:
            batches = slice(0 if part.start is None else int(part.start) + 1, int(part.end) + 1)
        texts = [(text,) for text in self.tape.texts(batches)]
        frame = spark.createDataFrame(texts, "text string")
        reason = parser.reason(F.col("text")).alias("reason")
        found = frame.select(reason, F.col("text").cast("binary").alias("raw"))
        return found.where("reason IS NOT NULL")

    def _judged(self, frame: DataFrame) -> DataFrame:
        """Raw records parsed, rows as they are, and the parser's verdict over both."""
        from pyspark.sql import functions as F

        from headwater.connectors.records import CORRUPT

        parser = self.tape.parser
        assert parser is not None
        record = parser.parsed(F.col(RAW))
        is_row = F.col(RAW).isNull()
        columns = [
            F.when(is_row, F.col(c.name)).otherwise(record[c.name]).alias(c.name)
            if c.name in parser.columns().names
            else F.col(c.name)
            for c in self.tape.schema.fields
        ]
        parsed = frame.select(*columns, MARKER, record[CORRUPT].alias(CORRUPT))
        judged = parser.verdict(parsed)
        return judged.withColumn(REJECTED, F.col(REJECTED) & ~F.col(MARKER))


def lookup_rows(rows: Rows, schema: StructType, name: str) -> list[tuple[Any, ...]]:
    what = f"lookup {name}"
    return typed(records(rows, schema.names, what=what), schema, what=what)


@dataclass(slots=True)
class HeldRows:
    """What a lookup under test holds; a test may change it."""

    table: Any


@dataclass(frozen=True, slots=True)
class LookupRows(Connector):
    """Rows in place of a lookup's own connector."""

    system: ClassVar[str] = "tape"
    reads_batches: ClassVar[bool] = True

    held: HeldRows = field(hash=False)
    schema: StructType = field(hash=False)

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        return spark.createDataFrame(self.held.table, self.schema)

    def describe(self) -> str:
        return "rows of a test"
