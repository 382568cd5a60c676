"""A batch of a checkpoint, run once more through another query over the same sources."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.event_time.plans import analyzed, streaming_leaves
from headwater.runtime.frames import BuiltTable
from headwater.runtime.offsets import OffsetEntry, OffsetLog
from headwater.runtime.storage import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Replay:
    """Replays batches of the query that `build` gives for them.

    Spark runs a batch again that its offset log has and its commit log has not: a copy of the two
    log entries, in a checkpoint of its own, gives any query over the same sources just that batch.
    """

    def __init__(
        self, build: Callable[[int], BuiltTable], log: OffsetLog, files: Files, place: str
    ) -> None:
        self._build = build
        self._log = log
        self._files = files
        self._place = place

    def rows(self, take: Callable[[BuiltTable], DataFrame], batch: int) -> DataFrame:
        """What a part of the query gives for a batch; `take` cuts it out."""
        entry = self._log.entry(batch)
        if entry is None:
            raise LookupError(f"{self._log.checkpoint} no longer has the offsets of batch {batch}")
        place = f"{self._place}/{uuid.uuid4().hex}"
        # Reads of its own: a source may forget what the query has committed.
        whole = self._build(batch)
        part = take(whole)
        indexes = _indexes(whole.frame, part)
        try:
            self._write_checkpoint(place, entry, indexes)
            return _run_again(part, place)
        finally:
            self._files.remove(place)

    def _write_checkpoint(self, place: str, entry: OffsetEntry, indexes: list[int]) -> None:
        self._files.write(f"{place}/metadata", f'{{"id":"{uuid.uuid4()}"}}')
        about, ends = self._offsets(entry.batch, indexes)
        self._write_offsets(place, entry.batch, about, ends)
        if entry.batch > 0:
            # With the settings of the batch itself: Spark takes another number of partitions for a
            # change of them that did not end, and runs nothing.
            _, begins = self._offsets(entry.batch - 1, indexes)
            self._write_offsets(place, entry.batch - 1, about, begins)
            commit = f'v1\n{{"nextBatchWatermarkMs":{entry.watermark_ms}}}'
            self._files.write(f"{place}/commits/{entry.batch - 1}", commit)
        for number, index in enumerate(indexes):
            self._files.copy(f"{self._log.checkpoint}/sources/{index}", f"{place}/sources/{number}")

    def _offsets(self, batch: int, indexes: list[int]) -> tuple[list[str], list[str]]:
        """The version and the settings of a batch, and how far it read the sources of a part."""
        path = f"{self._log.checkpoint}/offsets/{batch}"
        if not self._files.exists(path):
            raise LookupError(f"{self._log.checkpoint} no longer has the offsets of batch {batch}")
        version, metadata, *offsets = self._files.read(path).splitlines()
        return [version, metadata], [offsets[index] for index in indexes]

    def _write_offsets(self, place: str, batch: int, about: list[str], offsets: list[str]) -> None:
        self._files.write(f"{place}/offsets/{batch}", "\n".join([*about, *offsets]))


def _run_again(part: DataFrame, place: str) -> DataFrame:
    found: list[DataFrame] = []

    def keep(frame: DataFrame, batch: int) -> None:
        found.append(frame.localCheckpoint())

    writer = part.writeStream.foreachBatch(keep).option("checkpointLocation", place)
    query = writer.trigger(once=True).start()
    query.awaitTermination()
    if not found:
        raise LookupError(f"the batch of {place} did not run again")
    return found[0]


def _indexes(whole: DataFrame, part: DataFrame) -> list[int]:
    """The positions of a part's sources in the checkpoint of the whole query."""
    known = streaming_leaves(analyzed(whole))
    return [
        next(index for index, other in enumerate(known) if other.equals(leaf))
        for leaf in streaming_leaves(analyzed(part))
    ]
