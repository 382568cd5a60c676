"""Kafka for DStreams, which Spark took away from Python: the direct stream, exactly once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.dstream.inputs import BatchFrame, Input, rdd_of_pairs
from headwater.dstream.nodes import Timeline
from headwater.dstream.stream import DStream
from headwater.dstream.unsupported import unsupported
from headwater.errors import DStreamUnsupported, SessionLacksJars
from headwater.local.jars import JarSet, jar_paths

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

    from headwater.dstream.context import StreamingContext


@dataclass(frozen=True, slots=True)
class TopicAndPartition:
    """A partition of a topic."""

    _topic: str
    _partition: int

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def partition(self) -> int:
        return self._partition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of a partition that one batch has: from fromOffset, before untilOffset."""

    topic: str
    partition: int
    fromOffset: int
    untilOffset: int

    def topicAndPartition(self) -> TopicAndPartition:
        return TopicAndPartition(self.topic, self.partition)

    def count(self) -> int:
        return self.untilOffset - self.fromOffset


@dataclass(frozen=True, slots=True)
class KafkaMessageAndMetadata:
    """One record with where it stands; what a message handler is given."""

    topic: str
    partition: int
    offset: int
    _rawKey: bytes | None
    _rawMessage: bytes | None
    _keyDecoder: Callable[[bytes | None], Any]
    _valueDecoder: Callable[[bytes | None], Any]

    @property
    def key(self) -> Any:
        return self._keyDecoder(self._rawKey)

    @property
    def message(self) -> Any:
        return self._valueDecoder(self._rawMessage)


def utf8_decoder(data: bytes | None) -> str | None:
    """Bytes as text; None stays None."""
    return None if data is None else bytes(data).decode("utf-8")


class KafkaUtils:
    """Makes streams of Kafka topics."""

    @staticmethod
    def createDirectStream(
        ssc: StreamingContext,
        topics: Sequence[str],
        kafkaParams: Mapping[str, str],
        fromOffsets: Mapping[TopicAndPartition, int] | None = None,
        keyDecoder: Callable[[Any], Any] = utf8_decoder,
        valueDecoder: Callable[[Any], Any] = utf8_decoder,
        messageHandler: Callable[[KafkaMessageAndMetadata], Any] | None = None,
    ) -> DStream[Any]:
        """(key, value) of each record, or what messageHandler makes of it.

        `fromOffsets` names the partitions to read and where each begins. `offsetRanges()` of an RDD
        of this very stream says what the batch has.
        """
        _require_jars(ssc)
        node = KafkaInput(
            ssc._program,
            ssc._program.interval_ms,
            list(topics),
            dict(kafkaParams),
            {} if fromOffsets is None else dict(fromOffsets),
            keyDecoder,
            valueDecoder,
            messageHandler,
        )
        return ssc._input(node)

    @staticmethod
    def createStream(*arguments: Any, **named: Any) -> DStream[Any]:
        """Not supported: raises with what to use instead."""
        raise unsupported("createStream")

    @staticmethod
    def createRDD(*arguments: Any, **named: Any) -> RDD[Any]:
        """Not supported: raises with what to use instead."""
        raise unsupported("createRDD")


class KafkaInput(Input):
    """The records of topics."""

    def __init__(
        self,
        timeline: Timeline,
        slide_ms: int,
        topics: list[str],
        parameters: dict[str, str],
        starts: Mapping[TopicAndPartition, int],
        key_decoder: Callable[[Any], Any],
        value_decoder: Callable[[Any], Any],
        handler: Callable[[KafkaMessageAndMetadata], Any] | None,
    ) -> None:
        super().__init__(timeline, slide_ms)
        self._topics = topics
        self._parameters = parameters
        self._starts = starts
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._handler = handler

    def stream(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.format("kafka").options(**self._options())
        if self._starts:
            wanted: dict[str, dict[str, int]] = {}
            for place, offset in self._starts.items():
                wanted.setdefault(place.topic, {})[str(place.partition)] = offset
            partitions = {topic: sorted(map(int, offsets)) for topic, offsets in wanted.items()}
            reader = reader.option("assign", json.dumps(partitions))
            return reader.option("startingOffsets", json.dumps(wanted)).load()
        reader = reader.option("subscribe", ",".join(self._topics))
        return reader.option("startingOffsets", self._reset()).load()

    def part(self, spark: SparkSession, start: str | None, end: str) -> DataFrame:
        partitions: dict[str, list[int]] = {}
        starts: dict[str, dict[str, int]] = {}
        ends: dict[str, dict[str, int]] = {}
        for one in self.ranges(start, end):
            partitions.setdefault(one.topic, []).append(one.partition)
            starts.setdefault(one.topic, {})[str(one.partition)] = one.fromOffset
            ends.setdefault(one.topic, {})[str(one.partition)] = one.untilOffset
        reader = spark.read.format("kafka").options(**self._options())
        reader = reader.option("assign", json.dumps(partitions))
        reader = reader.option("startingOffsets", json.dumps(starts))
        return reader.option("endingOffsets", json.dumps(ends)).load()

    def to_rdd(self, frame: BatchFrame, start: str | None, end: str) -> RDD[Any]:
        records = self._decoded(frame())
        ranges = self.ranges(start, end)
        # Asked of the RDD itself, as programs do that keep their offsets elsewhere.
        records.offsetRanges = lambda: ranges
        rdd: RDD[Any] = records
        return rdd

    def no_rows(self, end: str | None) -> RDD[Any]:
        nothing: Any = super().no_rows(end)
        ranges = [] if end is None else self.ranges(end, end)
        nothing.offsetRanges = lambda: ranges
        rdd: RDD[Any] = nothing
        return rdd

    def ranges(self, start: str | None, end: str) -> list[OffsetRange]:
        """What lies between two offsets, partition by partition."""
        begins = _places(self.log.initial() if start is None else start)
        # A partition that was added since is read from its beginning.
        return [
            OffsetRange(place.topic, place.partition, begins.get(place, 0), until)
            for place, until in _places(end).items()
        ]

    def records(self, start: str | None, end: str) -> int:
        return sum(one.count() for one in self.ranges(start, end))

    def _decoded(self, frame: DataFrame) -> Any:
        key_decoder, value_decoder, handler = self._key_decoder, self._value_decoder, self._handler
        if handler is not None:

            def handled(row: Any) -> Any:
                topic, partition, offset, key, value = row
                key, value = _bytes(key), _bytes(value)
                return handler(
                    KafkaMessageAndMetadata(
                        topic, partition, offset, key, value, key_decoder, value_decoder
                    )
                )

            return frame.select("topic", "partition", "offset", "key", "value").rdd.map(handled)
        pairs = rdd_of_pairs(frame.selectExpr(_marked("key"), _marked("value")))
        return pairs.map(
            lambda pair: (key_decoder(_unmarked(pair[0])), value_decoder(_unmarked(pair[1])))
        )

    def _options(self) -> dict[str, str]:
        servers = self._parameters.get("bootstrap.servers")
        servers = servers or self._parameters.get("metadata.broker.list")
        if not servers:
            raise DStreamUnsupported(
                "a direct stream without brokers",
                f"kafkaParams has {sorted(self._parameters) or 'nothing'}",
                "give 'bootstrap.servers' or 'metadata.broker.list'",
            )
        others = {f"kafka.{k}": v for k, v in self._parameters.items() if k not in _NOT_PASSED_ON}
        return {"kafka.bootstrap.servers": servers, **others}

    def _reset(self) -> str:
        asked = self._parameters.get("auto.offset.reset", "latest")
        return {"smallest": "earliest", "largest": "latest"}.get(asked, asked)


_NOT_PASSED_ON = {
    # What is said in another way here,
    *("bootstrap.servers", "metadata.broker.list", "auto.offset.reset"),
    # and what the checkpoint and the decoders stand for.
    *("group.id", "enable.auto.commit", "auto.commit.enable", "auto.commit.interval.ms"),
    *("key.deserializer", "value.deserializer"),
}


def _places(offsets: str) -> dict[TopicAndPartition, int]:
    """The source's own JSON, in the order of topics and partitions."""
    return {
        TopicAndPartition(topic, int(partition)): int(offset)
        for topic, partitions in sorted(json.loads(offsets).items())
        for partition, offset in sorted(partitions.items(), key=lambda one: int(one[0]))
    }


def _marked(column: str) -> str:
    """A column with a byte in front, because Spark hands no null to Python in a pair of bytes."""
    return f"coalesce(concat(X'01', {column}), X'00') as {column}"


def _unmarked(data: bytes) -> bytes | None:
    return data[1:] if data[:1] == b"\x01" else None


def _bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(data)


def _require_jars(ssc: StreamingContext) -> None:
    java: Any = ssc.sparkContext._jvm
    loader = java.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    try:
        loader.loadClass("org.apache.spark.sql.kafka010.KafkaSourceProvider")
    except Exception as missing:
        paths = [str(path) for path in jar_paths([JarSet.KAFKA])]
        raise SessionLacksJars(JarSet.KAFKA.value, paths) from missing
