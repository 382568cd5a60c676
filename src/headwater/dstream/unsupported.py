"""What Spark's Python API never had, or has lost, and what to use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import DStreamUnsupported

_NO_CONNECTOR = "its connector was removed from Spark"
_OF_SCALA = "it is there in Scala only"
_OWN_RECEIVER = "a Receiver of your own"

REPLACEMENTS = {
    "createStream": (
        "it read through ZooKeeper, which Kafka no longer has",
        "KafkaUtils.createDirectStream, which needs no ZooKeeper",
    ),
    "createRDD": (
        "it read between offsets as a batch",
        "spark.read.format('kafka') with starting and ending offsets",
    ),
    "createPollingStream": (_NO_CONNECTOR, f"{_OWN_RECEIVER}, or a Kafka sink in Flume"),
    "FlumeUtils": (_NO_CONNECTOR, f"{_OWN_RECEIVER}, or a Kafka sink in Flume"),
    "KinesisUtils": (
        "its connector is another project",
        f"{_OWN_RECEIVER}, or a Kinesis source for Structured Streaming",
    ),
    "MQTTUtils": (_NO_CONNECTOR, _OWN_RECEIVER),
    "ZeroMQUtils": (_NO_CONNECTOR, _OWN_RECEIVER),
    "actorStream": (_OF_SCALA, _OWN_RECEIVER),
    "mapWithState": (_OF_SCALA, "updateStateByKey, or a table with transformWithState"),
}
"""By name: the reason, and what to use."""


def unsupported(name: str) -> DStreamUnsupported:
    return DStreamUnsupported(name, *REPLACEMENTS[name])


class Explains:
    """A class that says why it lacks what some program asks of it."""

    if not TYPE_CHECKING:  # else every misspelt name would have a type

        def __getattr__(self, name: str) -> object:
            if name in REPLACEMENTS:
                raise unsupported(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
