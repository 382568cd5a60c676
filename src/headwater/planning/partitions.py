"""How many partitions a stream's input has."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.connectors.kafka import Kafka, partition_count
from headwater.errors import HeadwaterError
from headwater.planning.inputs import StreamInput
from headwater.runtime.specification import connection_of
from headwater.settings import Settings


def input_partitions(inputs: Sequence[StreamInput], settings: Settings) -> int | None:
    """The sum over all inputs; None where one of them cannot say now, such as a broker that is
    out of reach."""
    counts = [_partitions(one, settings) for one in inputs]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _partitions(one: StreamInput, settings: Settings) -> int | None:
    connector = one.connector
    if not isinstance(connector, Kafka):
        return None
    if connector.assign:
        return sum(len(numbers) for numbers in connector.assign.values())
    try:
        connection = connection_of(connector, settings)
        assert connection is not None
        return sum(partition_count(connection, topic) for topic in connector.topics) or None
    except HeadwaterError:
        return None
