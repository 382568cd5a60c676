"""Offsets of a topic: where a read begins and ends, what a checkpoint gave to a batch, what is
gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headwater.connectors.interface import Gap, Loss, OffsetRange
from headwater.connectors.kafka.clients import begin_offsets, end_offsets
from headwater.errors import InvalidConnector, UnknownChoice
from headwater.settings import Connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLIEST = -2
"""Spark's number for the oldest record."""

Offsets = str | datetime | Mapping[Any, Any]


def lost_of(connection: Connection, topic: str, reached: Mapping[int, int]) -> list[Gap]:
    begins, ends = begin_offsets(connection, topic), end_offsets(connection, topic)
    # Neither partitions nor offsets become fewer while a topic lives.
    if any(p not in ends or offset > ends[p] for p, offset in reached.items()):
        return [Gap(topic, p, at, None, Loss.TOPIC_MADE_ANEW) for p, at in reached.items()]
    return [
        Gap(topic, p, offset, begins[p], Loss.RECORDS_DELETED)
        for p, offset in reached.items()
        if offset < begins[p]
    ]


def exactly(spark: SparkSession, part: OffsetRange, *, reads_beginning: bool) -> dict[str, str]:
    """Options of a batch that reads just what the checkpoint gives to `part`."""
    end: dict[str, dict[str, int]] = json.loads(part.end)
    start = _initial_offsets(spark, part) if part.start is None else json.loads(part.start)
    if start is None:
        # The continuous trigger does not write down where it began.
        start = {} if reads_beginning else end
    # A partition that came later is read from its beginning, as the stream did.
    begin = {
        topic: {p: start.get(topic, {}).get(p, EARLIEST) for p in partitions}
        for topic, partitions in end.items()
    }
    assigned = {topic: [int(p) for p in partitions] for topic, partitions in end.items()}
    return {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(begin),
        "endingOffsets": json.dumps(end),
    }


def _initial_offsets(spark: SparkSession, part: OffsetRange) -> dict[str, dict[str, int]] | None:
    """Where a query began; None where the log does not say it."""
    from pyspark.errors import AnalysisException

    try:
        lines = [str(row.value) for row in spark.read.text(f"{part.log}/0").collect()]
    except AnalysisException as missing:
        if missing.getCondition() != "PATH_NOT_FOUND":
            raise
        return None
    found = next(line[line.index("{") :] for line in lines if "{" in line)
    begun: dict[str, dict[str, int]] = json.loads(found)
    return begun


def position_options(which: str, offsets: Offsets, topics: tuple[str, ...]) -> dict[str, str]:
    """`starting` or `ending` as Spark's option of that side."""
    if isinstance(offsets, datetime):
        moment = {f"{which}Timestamp": str(int(offsets.timestamp() * 1000))}
        # A time after the last record means "from the next one on", not a failure.
        later = {"startingOffsetsByTimestampStrategy": "latest"} if which == "starting" else {}
        return moment | later
    if isinstance(offsets, Mapping):
        is_flat = all(not isinstance(value, Mapping) for value in offsets.values())
        if is_flat and len(topics) != 1:
            raise InvalidConnector(
                "kafka",
                f"{which}={dict(offsets)!r} does not say of which topic",
                expected='{"topic": {0: 42}}, or {0: 42} where there is one topic',
            )
        by_topic = {topics[0]: offsets} if is_flat else offsets
        return {f"{which}Offsets": json.dumps(_offsets_by_partition(by_topic))}
    allowed = ("earliest", "latest")
    if offsets not in allowed:
        raise UnknownChoice(f"kafka {which} offset", str(offsets), allowed)
    return {f"{which}Offsets": offsets}


def _offsets_by_partition(by_topic: Mapping[Any, Any]) -> dict[str, dict[str, int]]:
    words = {"earliest": EARLIEST, "latest": -1}
    return {
        str(topic): {str(p): words.get(offset, offset) for p, offset in partitions.items()}
        for topic, partitions in by_topic.items()
    }
