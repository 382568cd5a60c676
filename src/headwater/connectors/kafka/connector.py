"""Kafka topics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.connectors.interface import (
    ALL_MODES,
    ARRIVAL,
    MICRO_BATCH,
    RECORD,
    Connector,
    Gap,
    Idempotence,
    Loss,
    OffsetRange,
    ReadRequest,
    WriteRequest,
    limit_option,
    option_texts,
    struct_type,
)
from headwater.connectors.kafka.clients import (
    create_topic,
    end_offsets,
    java_options,
    topics_of,
)
from headwater.connectors.kafka.offsets import exactly, lost_of, position_options
from headwater.connectors.kafka.resuming import Resuming
from headwater.connectors.records import RecordFormat, RecordParser, latest_in
from headwater.definitions import Limit, LimitUnit, OutputMode, TriggerKind
from headwater.errors import InvalidConnector, NotReadable, TopicMissing, UnknownChoice
from headwater.local.jars import JarSet
from headwater.settings import Connection

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FIELDS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""What a Kafka record carries, by Spark's names."""

ORIGIN = "_kafka"
"""Struct of the requested fields beside the columns of the schema."""

_ROUTING = ("key", "topic", "headers", "partition")
_FAST_READ = {"kafka.max.poll.records": "10000", "kafka.max.partition.fetch.bytes": "8388608"}
_FAST_WRITE = {"kafka.batch.size": "262144", "kafka.linger.ms": "10"}


@dataclass(frozen=True, slots=True)
class Kafka(Connector):
    """Topics of one cluster. See `kafka`."""

    system: ClassVar[str] = "kafka"
    jars: ClassVar[frozenset[JarSet]] = frozenset({JarSet.KAFKA})
    needs_connection: ClassVar[bool] = True
    reads_streams: ClassVar[bool] = True
    reads_batches: ClassVar[bool] = True
    writes: ClassVar[bool] = True
    parses: ClassVar[bool] = True
    record: ClassVar[str | None] = (
        "value binary, topic string, partition int, offset bigint, timestamp timestamp"
    )
    is_replayable: ClassVar[bool] = True
    limit_units: ClassVar[frozenset[LimitUnit]] = frozenset({LimitUnit.ROWS})
    read_triggers: ClassVar[frozenset[TriggerKind]] = frozenset(TriggerKind)
    write_triggers: ClassVar[frozenset[TriggerKind]] = frozenset(TriggerKind)
    writes_increments: ClassVar[bool] = True
    compares_rows: ClassVar[bool] = True
    takes_async_progress: ClassVar[bool] = True

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assign: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    starting: Mapping[str, str] = field(default_factory=dict, hash=False)
    ending: Mapping[str, str] = field(default_factory=dict, hash=False)
    fields: tuple[str, ...] = ()
    creates: bool = False
    partitions: int = 1
    connection: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    # Reading

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        # Real-time batches are cut by time: Spark refuses a limit there.
        is_limited = request.trigger is not TriggerKind.REAL_TIME
        limit = limit_option(self, request) if is_limited else {}
        options = {**self._read_options(request), **limit, **self.starting, **self.options}
        if request.skips_lost:
            options["failOnDataLoss"] = "false"
        frame = spark.readStream.format("kafka").options(**options).load()
        return self._shaped(frame, request)

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        if self.starting.get("startingOffsets") == "latest":
            raise NotReadable(
                "kafka",
                "batch",
                found='starting="latest", behind which there is nothing yet',
                remedy="start at earliest, at a time or at offsets",
            )
        options = {
            **self._read_options(request),
            **self.starting,
            **(self.ending or {"endingOffsets": "latest"}),
            **self.options,
        }
        frame = spark.read.format("kafka").options(**options).load()
        return self._shaped(frame, request, has_arrival=request.max_ahead_ms is not None)

    def read_part(self, spark: SparkSession, request: ReadRequest, part: OffsetRange) -> DataFrame:
        options = {**_FAST_READ, **java_options(_required(request.connection))}
        if "headers" in self.fields:
            options["includeHeaders"] = "true"
        frame = (
            spark.read.format("kafka")
            .options(**options, **exactly(spark, part, reads_beginning=self.reads_beginning))
            .load()
        )
        return self._shaped(frame, request, has_arrival=request.max_ahead_ms is not None)

    def _read_options(self, request: ReadRequest) -> dict[str, str]:
        options = {**_FAST_READ, **java_options(_required(request.connection))}
        if "headers" in self.fields:
            options["includeHeaders"] = "true"
        if self.pattern is not None:
            return {**options, "subscribePattern": self.pattern}
        if self.assign:
            return {**options, "assign": json.dumps({t: list(p) for t, p in self.assign.items()})}
        self._require_topics("read")
        return {**options, "subscribe": ",".join(self.topics)}

    def _shaped(
        self, frame: DataFrame, request: ReadRequest, *, has_arrival: bool = False
    ) -> DataFrame:
        from pyspark.sql import functions as F

        arrival = [F.col("timestamp").alias(ARRIVAL)] if has_arrival else []
        if request.schema is None:
            return frame.select(*(name for name in FIELDS if name in frame.columns), *arrival)
        parser = self.parser(request)
        if request.carries_records:
            columns = struct_type(self.record or "").names
            arrival += [F.col(name).alias(RECORD + name) for name in columns]
        return parser.verdict(self._parsed(frame, parser, request.trigger, arrival))

    def _parsed(
        self, frame: DataFrame, parser: RecordParser, trigger: TriggerKind, arrival: list[Column]
    ) -> DataFrame:
        from pyspark.sql import functions as F

        record = parser.parsed(frame["value"].cast("string"))
        origin = [F.struct(*self.fields).alias(ORIGIN)] if self.fields else []
        origin += arrival
        if trigger is TriggerKind.CONTINUOUS:
            # Spark refuses generators there; the filter on the verdict then parses once more.
            return frame.select(record.alias("__record"), *origin).select(
                "__record.*", *([ORIGIN] if origin else [])
            )
        # A generator's output is computed once, however often later expressions mention it.
        return frame.select(F.inline(F.array(record)), *origin)

    def parser(self, request: ReadRequest) -> RecordParser:
        return RecordParser(RecordFormat.JSON, request.schema or "", request.event_time)

    def read_rejected(
        self, spark: SparkSession, request: ReadRequest, part: OffsetRange | None
    ) -> DataFrame:
        options = self._read_options(request)
        if part is None:
            options |= {**self.starting, **(self.ending or {"endingOffsets": "latest"})}
        else:
            options = java_options(_required(request.connection)) | exactly(
                spark, part, reads_beginning=self.reads_beginning
            )
        options["failOnDataLoss"] = "false"
        frame = spark.read.format("kafka").options(**options).load()
        return self._rejected(frame, request, part)

    def rejected_of(self, records: DataFrame, request: ReadRequest, part: OffsetRange) -> DataFrame:
        return self._rejected(records, request, part)

    def _rejected(
        self, frame: DataFrame, request: ReadRequest, part: OffsetRange | None
    ) -> DataFrame:
        from pyspark.sql import functions as F

        latest = latest_in(request, part, arrival=F.col("timestamp"))
        rejected = self.parser(request).rejected(frame, frame["value"].cast("string"), latest)
        raw = F.col("value").alias("raw")
        return rejected.select("reason", raw, "topic", "partition", "offset", "timestamp")

    def check_readable(self, request: ReadRequest) -> None:
        connection = _required(request.connection)
        found = topics_of(connection)
        if self.pattern is None:
            self._require_topics("read")
            self._require_existing(connection, found, [*self.topics, *self.assign])

    def gaps(self, request: ReadRequest, reached: str) -> list[Gap]:
        connection = _required(request.connection)
        known = topics_of(connection)
        offsets = {
            topic: {int(p): int(offset) for p, offset in partitions.items()}
            for topic, partitions in json.loads(reached).items()
        }
        wanted = {*self.topics, *self.assign}
        for topic in wanted - known.keys() - offsets.keys():
            address = connection.require("bootstrap_servers")
            raise TopicMissing(topic=topic, topics=known, address=address)
        found = []
        for topic, partitions in offsets.items():
            if topic in known:
                found += lost_of(connection, topic, partitions)
                continue
            found += [
                Gap(topic, p, offset, None, Loss.TOPIC_DELETED, prevents_reading=topic in wanted)
                for p, offset in partitions.items()
            ]
        return found

    def forgotten(self, reached: str, topics: Set[str]) -> str:
        # Spark reads partitions that its offsets do not name from their beginning.
        return json.dumps({t: ends for t, ends in json.loads(reached).items() if t not in topics})

    @property
    def reads_beginning(self) -> bool:
        return self.starting.get("startingOffsets") in (None, "earliest")

    def gone_at_start(self, request: ReadRequest) -> list[Gap]:
        known = topics_of(_required(request.connection))
        zeros = {t: dict.fromkeys(map(str, range(known[t])), 0) for t in self.topics if t in known}
        return self.gaps(request, json.dumps(zeros))

    def default_limit(self) -> Limit | None:
        return Limit(1_000_000, LimitUnit.ROWS)

    # Writing

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return ALL_MODES

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        if not self.topics:
            return Idempotence(
                False, "only rows name the topic, so what was written cannot be looked for"
            )
        return Idempotence(
            True,
            "what a crashed attempt wrote is read back, and not written again",
            "no record of a batch is deleted from the topic, by retention, compaction or hand, "
            "before the batch is committed, and speculative execution is off",
        )

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        records, options = self._records(frame, request)
        if (resuming := self._resuming(request, options)) is not None:
            return resuming.write_stream(records)
        if request.is_async_progress:
            options = {**_ASYNC_PROGRESS, **options}
        return records.writeStream.format("kafka").options(**options)

    def write_increment(
        self, frame: DataFrame, request: WriteRequest, *, query: str, batch: int
    ) -> None:
        records, options = self._records(frame, request)
        if (resuming := self._resuming(request, options)) is not None:
            resuming.write(records, query=query, batch=batch)
        else:
            records.write.format("kafka").options(**options).save()

    def _resuming(self, request: WriteRequest, options: Mapping[str, str]) -> Resuming | None:
        if request.note is None or not request.is_exactly_once:
            return None
        is_keyed = bool(request.key) and request.mode is not OutputMode.APPEND
        return Resuming(_required(request.connection), options, request.note, is_keyed)

    def _records(self, frame: DataFrame, request: WriteRequest) -> tuple[DataFrame, dict[str, str]]:
        """Rows as records, and the options of Spark's sink."""
        chosen = _FAST_WRITE if request.trigger in MICRO_BATCH else {}
        options = {**chosen, **self._write_options(frame, request), **self.options}
        return frame.select(*self._record(frame, request.key)), options

    def _write_options(self, frame: DataFrame, request: WriteRequest) -> dict[str, str]:
        options = java_options(_required(request.connection))
        if self._topic() is not None:
            options["topic"] = str(self._topic())
        elif "topic" not in frame.columns:
            raise InvalidConnector(
                "kafka",
                f"table {request.table!r} has no column `topic`, and the sink names none",
                remedy='name one, kafka("topic"), or add the column',
            )
        return options

    def _record(self, frame: DataFrame, key: tuple[str, ...]) -> list[Column]:
        """The columns of Kafka records: value, and key, topic, headers, partition if there are."""
        from pyspark.sql import functions as F

        routing = [
            name
            for name in _ROUTING
            if name in frame.columns and not (name == "topic" and self._topic())
        ]
        content = [name for name in frame.columns if name not in routing]
        is_ready = content == ["value"]
        value = _as_bytes(frame, "value") if is_ready else F.to_json(F.struct(*content))
        columns = [value.alias("value")]
        if "key" in routing:
            columns.append(_as_bytes(frame, "key").alias("key"))
        elif len(key) == 1:
            columns.append(_as_bytes(frame, key[0]).alias("key"))
        elif key:
            columns.append(F.to_json(F.struct(*key)).alias("key"))
        return [*columns, *(F.col(name) for name in routing if name != "key")]

    def chosen_options(self) -> dict[str, tuple[str, str]]:
        why = "fewer, larger fetches: Kafka's defaults are made for small consumers"
        return {name: (self.options.get(name, value), why) for name, value in _FAST_READ.items()}

    def chosen_write_options(self, trigger: TriggerKind) -> dict[str, tuple[str, str]]:
        why = "fewer, larger requests: at its end a batch waits for all of them anyway"
        chosen = _FAST_WRITE if trigger in MICRO_BATCH else {}
        return {name: (self.options.get(name, value), why) for name, value in chosen.items()}

    def position(self, spark: SparkSession, request: WriteRequest, query: str) -> str | None:
        topic = self._topic()
        if topic is None:
            return None
        ends = end_offsets(_required(request.connection), topic)
        return f"offsets {json.dumps(ends, sort_keys=True)}"

    def check_writable(self, request: WriteRequest) -> None:
        connection = _required(request.connection)
        found = topics_of(connection)
        topic = self._topic()
        if topic is not None:
            self._require_existing(connection, found, [topic])

    def place(self, base: Path, connection: str) -> str | None:
        return f"{connection}/{self.topics[0]}" if len(self.topics) == 1 else None

    def _topic(self) -> str | None:
        if self.pattern is not None or self.assign or len(self.topics) > 1:
            raise InvalidConnector(
                "kafka",
                "a sink writes to one topic, or to the one that each row names",
                remedy='kafka("topic"), or kafka() and a column `topic`',
            )
        return self.topics[0] if self.topics else None

    # Both

    def _require_topics(self, way: str) -> None:
        if not self.topics and not self.assign:
            raise InvalidConnector(
                "kafka", f"no topic to {way}", remedy='kafka("topic"), pattern=… or assign=…'
            )

    def _require_existing(
        self, connection: Connection, found: Mapping[str, int], wanted: Sequence[str]
    ) -> None:
        for topic in wanted:
            if topic in found:
                continue
            if not self.creates:
                address = connection.require("bootstrap_servers")
                raise TopicMissing(topic=topic, topics=found, address=address)
            create_topic(connection, topic, partitions=self.partitions)

    def describe(self) -> str:
        if self.pattern is not None:
            return f"kafka topics like {self.pattern}"
        topics = self.topics or tuple(self.assign)
        if not topics:
            return "kafka, the topic that each row names"
        return f"kafka topic{'s' if len(topics) > 1 else ''} {', '.join(topics)}"


_ASYNC_PROGRESS = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "1000",
}


def _required(connection: Connection | None) -> Connection:
    if connection is None:
        raise InvalidConnector("kafka", "no connection was given")
    return connection


def _as_bytes(frame: DataFrame, name: str) -> Column:
    """A column as Kafka's sink takes it: text and bytes as they are, structures as JSON."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    kind = frame.schema[name].dataType
    if isinstance(kind, StringType | BinaryType):
        return F.col(name)
    if isinstance(kind, StructType | ArrayType | MapType):
        return F.to_json(F.col(name))
    return F.col(name).cast("string")


def kafka(
    *topics: str,
    pattern: str | None = None,
    assign: Mapping[str, Sequence[int]] | None = None,
    starting: str | datetime | Mapping[Any, Any] = "earliest",
    ending: str | datetime | Mapping[Any, Any] | None = None,
    fields: bool | Sequence[str] = False,
    create: bool = False,
    partitions: int = 1,
    connection: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Kafka:
    """Topics of a Kafka cluster, by name, by `pattern`, or by `assign={"topic": [0, 1]}`.

    Reading. With a schema each value is parsed as JSON, once, and a record that does not parse is
    rejected; `fields` adds the struct `_kafka` (True: key, value, topic, partition, offset,
    timestamp, headers; or some of these names). Without a schema the record's fields are the
    columns, in Spark's own types, headers only if `fields` asks. `starting` is "earliest" (the
    default in every way of running), "latest", a datetime, or offsets per partition; `ending`
    bounds a batch. One batch of a stream takes at most 1,000,000 rows unless `max_per_batch` says
    otherwise; under a real-time trigger there is no such limit.

    Writing. All modes, all triggers; exactly once under micro-batch triggers: every record carries
    the header `headwater` with its query and batch, by which a batch that comes again finds what is
    there. `guarantee="at_least_once"` writes without. The value is the JSON of all columns, or the
    column `value` where it is the only one beside `key`, `topic`, `headers`, `partition`. The key
    is the column `key`, else the table's key (several columns: as JSON). `kafka()` without a
    topic writes each row to the topic in its column `topic`. `create` makes a missing topic with
    so many `partitions`; otherwise a missing topic is an error before the start.

    The connection gives `bootstrap_servers`, `username` and `password` where needed, and any
    other client setting with underscores for dots.

    >>> kafka("signals", fields=("key", "offset")).describe()
    'kafka topic signals'
    """
    chosen = [bool(topics), pattern is not None, bool(assign)]
    if sum(chosen) > 1:
        raise InvalidConnector("kafka", "topics, pattern= and assign= exclude each other")
    if partitions < 1:
        raise InvalidConnector("kafka", f"partitions={partitions}", expected="1 or more")
    wanted = FIELDS if fields is True else tuple(fields or ())
    for name in wanted:
        if name not in FIELDS:
            raise UnknownChoice("kafka field", str(name), FIELDS)
    return Kafka(
        topics=topics,
        pattern=pattern,
        assign={topic: tuple(numbers) for topic, numbers in (assign or {}).items()},
        starting=position_options("starting", starting, topics),
        ending={} if ending is None else position_options("ending", ending, topics),
        fields=wanted,
        creates=create,
        partitions=partitions,
        connection=connection,
        options=option_texts(options),
    )
