"""What every connector says about its system, and what the runtime asks of it.

A connector is a frozen value that a user wrote (`kafka("signals")`). It owns no resource: the
runtime calls its methods with a request that carries everything decided elsewhere. Methods that
build a DataFrame or a writer are called once per start of a query and must not run a Spark job;
`check` is called once before that and may talk to the system.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from headwater.definitions import Limit, LimitUnit, OutputMode, TriggerKind
from headwater.errors import NotReadable, NotReplaceable, NotWritable
from headwater.local.jars import JarSet
from headwater.settings import Connection

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from headwater.connectors.records import RecordParser

REJECTED = "__rejected"
"""Boolean column that a parsing connector adds: the record did not parse."""
ARRIVAL = "__arrival"
"""Timestamp column that a connector adds to a batch where it is asked to and knows when a record
arrived."""
RECORD = "__record_"
"""Before the names of the columns in which a stream carries the record that a row was parsed from,
where it is asked to: for the few that are rejected."""

ALL_MODES = frozenset(OutputMode)
MICRO_BATCH = frozenset(
    {
        TriggerKind.DEFAULT,
        TriggerKind.PROCESSING_TIME,
        TriggerKind.ONCE,
        TriggerKind.AVAILABLE_NOW,
    }
)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """How one input is read. `base` is the folder that relative paths start from."""

    name: str
    schema: str | None
    connection: Connection | None
    base: Path
    pipeline: str = ""
    managed: str | None = None
    """Where a managed table of this name is stored; only Delta uses it."""
    max_per_batch: Limit | None = None
    event_time: str | None = None
    max_ahead_ms: int | None = None
    """How far ahead of its arrival an event may be; None where nothing is rejected for it."""
    trigger: TriggerKind = TriggerKind.DEFAULT
    skips_lost: bool = False
    """Whether input that is no longer there is passed over."""
    carries_records: bool = False
    """Whether a stream has the columns of `Connector.record`, too."""


class Loss(enum.Enum):
    """How input was lost."""

    RECORDS_DELETED = "deleted by the broker"
    TOPIC_DELETED = "the topic was deleted"
    TOPIC_MADE_ANEW = "the topic was deleted and made anew"


@dataclass(frozen=True, slots=True)
class Gap:
    """Input that a checkpoint goes on from and that is no longer there: from `start` up to, not
    with, `end`; None where nobody knows how much there was."""

    topic: str
    partition: int
    start: int
    end: int | None
    reason: Loss
    prevents_reading: bool = False
    """Whether the source cannot be read without that topic."""

    def __str__(self) -> str:
        reach = f"from {self.start} on" if self.end is None else f"{self.start} to {self.end}"
        return f"{self.topic}/{self.partition}: {reach} ({self.reason.value})"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Part of a stream's input, as its checkpoint recorded it: after `start` (None: from the
    beginning) up to `end`, both as the source's own JSON; `log` is the source's folder in the
    checkpoint (`checkpoint/sources/0`)."""

    start: str | None
    end: str
    log: str
    at_ms: int
    """When the batch was cut, by its offset log."""


@dataclass(frozen=True, slots=True)
class Idempotence:
    """Whether a batch that is written twice leaves the same content, and why, in words."""

    is_held: bool
    reason: str
    condition: str = ""
    """What has to stay true outside of Headwater for that; the plan says `as long as …`."""


class Note(Protocol):
    """A small text that survives a crash."""

    def read(self) -> str | None: ...
    def write(self, text: str) -> None:
        """Replaces the text, all or nothing."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """How one table is written."""

    table: str
    mode: OutputMode
    key: tuple[str, ...]
    connection: Connection | None
    base: Path
    managed: str
    """Where a managed table of this name is stored; only Delta uses it."""
    trigger: TriggerKind = TriggerKind.DEFAULT
    is_async_progress: bool = False
    order_by: tuple[str, ...] = ()
    """Which of several rows of one key is the last."""
    is_exactly_once: bool = False
    note: Note | None = None
    """A place in the query's checkpoint where a sink may keep what it needs after a crash."""


class Connector:
    """One external system, reading and writing sides together."""

    system: ClassVar[str]
    """Its name, which is also the name of its default connection."""
    jars: ClassVar[frozenset[JarSet]] = frozenset()
    needs_connection: ClassVar[bool] = False
    reads_streams: ClassVar[bool] = False
    reads_batches: ClassVar[bool] = False
    writes: ClassVar[bool] = False
    needs_schema: ClassVar[bool] = False
    """Whether a source over this connector must declare a schema."""
    parses: ClassVar[bool] = False
    """Whether records are parsed by the schema, so that some may be rejected."""
    record: ClassVar[str | None] = None
    """The columns of a record that a stream can carry, as the fields of a schema; None where it
    cannot."""
    keeps_columns: ClassVar[bool] = False
    """Whether rows that a table wrote are read back with the columns they had."""
    is_replayable: ClassVar[bool] = False
    """Whether a batch can be read again after a crash with the same rows."""
    limit_units: ClassVar[frozenset[LimitUnit]] = frozenset()
    """In which units `max_per_batch` can be said."""
    read_triggers: ClassVar[frozenset[TriggerKind]] = MICRO_BATCH
    write_triggers: ClassVar[frozenset[TriggerKind]] = MICRO_BATCH
    writes_increments: ClassVar[bool] = False
    """Whether a batch can be written by `write_increment`."""
    prepares: ClassVar[bool] = False
    """Whether `prepare` is called before every start, and not only where a table is read or
    merged into."""
    compares_rows: ClassVar[bool] = False
    """Whether a batch that comes again is compared with what was written of it: by key, or else
    by all values, which then have to be the same."""
    takes_async_progress: ClassVar[bool] = False
    """Whether Spark lets a query into this sink track its progress asynchronously."""

    connection: str | None = None

    # Reading

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        """An unbounded DataFrame of the schema's columns, with `REJECTED` where it parses."""
        raise NotReadable(self.system, "stream")

    def is_data(self) -> Column | None:
        """Which rows of a stream are data; None: all, except for inputs that move event time by
        rows which are not."""
        return None

    def below_watermark(self, frame: DataFrame, request: ReadRequest) -> DataFrame:
        """What remains of a stream once its watermark has seen every row; all of it, except for
        inputs that move event time by rows which are not data."""
        return frame

    def parser(self, request: ReadRequest) -> RecordParser | None:
        """How records become rows, where `parses`."""
        return None

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        """The same shape over everything that is there now, with `ARRIVAL` where the request has
        `max_ahead_ms` and the connector knows it."""
        raise NotReadable(self.system, "batch")

    def read_part(self, spark: SparkSession, request: ReadRequest, part: OffsetRange) -> DataFrame:
        """As `read_batch`, over a part of the input; fails where some of it is gone. All of it
        where a connector keeps nothing apart."""
        return self.read_batch(spark, request)

    def read_rejected(
        self, spark: SparkSession, request: ReadRequest, part: OffsetRange | None
    ) -> DataFrame:
        """Rejected records of a part of the input (None: of all of it), with the columns
        `reason string, raw binary` and the record's origin."""
        raise NotReadable(self.system, "rejected records")

    def rejected_of(self, records: DataFrame, request: ReadRequest, part: OffsetRange) -> DataFrame:
        """As `read_rejected`, of records of that part that are at hand, with the columns of
        `record`."""
        raise NotReadable(self.system, "rejected records")

    def gaps(self, request: ReadRequest, reached: str) -> list[Gap]:
        """What is gone of the input behind `reached`, an offset as the source's own JSON. Raises
        TopicMissing for a topic that neither is there nor was read."""
        return []

    def forgotten(self, reached: str, topics: Set[str]) -> str:
        """An offset from which these topics are read from their beginning, the others as before."""
        return reached

    @property
    def reads_beginning(self) -> bool:
        """Whether a new query reads everything that is there."""
        return True

    def gone_at_start(self, request: ReadRequest) -> list[Gap]:
        """What a new query would not find of the input that once was there."""
        return []

    def check_readable(self, request: ReadRequest) -> None:
        """Raises where a read would fail: broker out of reach, topic or folder missing."""

    def default_limit(self) -> Limit | None:
        """How much one batch reads where the source does not say."""
        return None

    # Writing

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        """The output modes in which this sink can be written."""
        return frozenset()

    @property
    def replaces_by_key(self) -> bool:
        """Whether a row in update mode takes the place of the one with its key: where that mode
        needs one."""
        return OutputMode.UPDATE in self.modes(has_key=True) - self.modes(has_key=False)

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        """Whether a batch written twice leaves the same content, and what that rests on."""
        return Idempotence(False, f"{self.system} cannot recognise a batch it was given before")

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        """A writer with format and options set; the runtime adds mode, trigger, checkpoint."""
        raise NotWritable(self.system)

    def write_increment(
        self, frame: DataFrame, request: WriteRequest, *, query: str, batch: int
    ) -> None:
        """Writes the rows of one batch of a query, in the request's mode."""
        raise NotWritable(self.system)

    def check_replaceable(self, request: WriteRequest) -> None:
        """Raises where `write_batch` cannot replace the content."""
        if type(self).write_batch is Connector.write_batch:
            raise NotReplaceable(self.system, request.table)

    def write_batch(self, frame: DataFrame, request: WriteRequest) -> None:
        """Replaces the table's content with `frame`."""
        raise NotReplaceable(self.system, request.table)

    def prepare(self, spark: SparkSession, schema: str, request: WriteRequest) -> None:
        """Called before the first batch: creates what readers expect to find (an empty table)."""

    def tidy(self, spark: SparkSession, request: WriteRequest) -> None:
        """Called before every start of a query: removes what a crashed attempt left behind, puts
        small files together."""

    def holds_rows(self, spark: SparkSession, request: WriteRequest) -> bool:
        """Whether the table has content already, where that is cheap to know."""
        return False

    def position(self, spark: SparkSession, request: WriteRequest, query: str) -> str | None:
        """What the sink itself knows of the batches that it holds, as a text that another batch of
        the query changes; None where it knows nothing."""
        return None

    def check_writable(self, request: WriteRequest) -> None:
        """Raises where a write would fail."""

    def place(self, base: Path, connection: str) -> str | None:
        """Where rows are stored, for the plan and to find two writers of one place; None where
        nothing is shared (console, memory, a function, a managed table)."""
        return None

    # Words

    def chosen_options(self) -> dict[str, tuple[str, str]]:
        """Options of Spark's reader that are set by default, each with its value and its reason."""
        return {}

    def chosen_write_options(self, trigger: TriggerKind) -> dict[str, tuple[str, str]]:
        """The same of Spark's writer."""
        return {}

    def describe(self) -> str:
        """A few words for the plan: `kafka topic signals`."""
        return self.system


def batch_by_batch(
    connector: Connector, frame: DataFrame, request: WriteRequest
) -> DataStreamWriter:
    """A writer that hands every batch to `write_increment`, with the id of its query."""
    return frame.writeStream.foreachBatch(
        lambda rows, batch: connector.write_increment(
            rows, request, query=query_of(rows.sparkSession), batch=batch
        )
    )


def query_of(spark: SparkSession) -> str:
    """The id of the query that runs in this thread."""
    query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query is not None
    return query


def run_through(frame: DataFrame) -> None:
    """Runs a batch whose rows are stored already: what keeps state has to see it again."""
    frame.write.format("noop").mode("overwrite").save()


def located(path: str, base: Path) -> str:
    """`path` as Spark wants it: a URI is kept, a relative path starts from `base`."""
    return path if "://" in path else str((base / path).resolve())


def limit_option(connector: Connector, request: ReadRequest) -> dict[str, str]:
    """The Spark option that holds a batch to the source's limit, or to the connector's own."""
    limit = request.max_per_batch or connector.default_limit()
    return {} if limit is None else {_LIMIT_OPTIONS[limit.unit]: str(limit.amount)}


_LIMIT_OPTIONS = {
    LimitUnit.ROWS: "maxOffsetsPerTrigger",
    LimitUnit.FILES: "maxFilesPerTrigger",
    LimitUnit.BYTES: "maxBytesPerTrigger",
}


def option_texts(options: Mapping[str, object] | None) -> dict[str, str]:
    """Options as Spark reads them: every value a string, booleans in lower case."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (options or {}).items()
    }


def struct_type(schema: str) -> StructType:
    """A schema's text as Spark's value; needs a session."""
    from pyspark.sql.types import StructType

    return cast(StructType, StructType.fromDDL(schema))


def jars_of(connectors: Iterable[Connector]) -> frozenset[JarSet]:
    return frozenset(jar for connector in connectors for jar in connector.jars)
