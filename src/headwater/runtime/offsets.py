"""The offset log of a checkpoint: what each batch was to read, and the watermark it began with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from headwater.runtime.storage import Files, last_number


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One batch; `offsets` are the ends of its sources, as their own JSON."""

    batch: int
    watermark_ms: int
    timestamp_ms: int
    offsets: tuple[str | None, ...]


class OffsetLog:
    """Reads `<checkpoint>/offsets`."""

    def __init__(self, files: Files, checkpoint: str) -> None:
        self._files = files
        self.checkpoint = checkpoint
        self._latest = -1
        self._known: OffsetEntry | None = None

    def until(self, batch: int) -> OffsetLog:
        """The log as it was when this batch was the newest."""
        return _LogUntil(self._files, self.checkpoint, batch)

    def entry(self, batch: int) -> OffsetEntry | None:
        """What was logged for a batch; None where it was not, or is no longer there."""
        if self._known is not None and self._known.batch == batch:
            return self._known
        path = f"{self.checkpoint}/offsets/{batch}"
        if batch < 0 or not self._files.exists(path):
            return None
        _, metadata, *offsets = self._files.read(path).splitlines()
        # The continuous trigger logs offsets without a watermark and a time.
        about = json.loads(metadata) if metadata else {}
        return OffsetEntry(
            batch,
            int(about.get("batchWatermarkMs", 0)),
            int(about.get("batchTimestampMs", 0)),
            tuple(None if line == "-" else line for line in offsets),
        )

    def replace_offset(self, batch: int, index: int, change: Callable[[str], str]) -> None:
        """Changes how far a batch read one source, where the batch is logged; only before the query
        starts."""
        path = f"{self.checkpoint}/offsets/{batch}"
        if not self._files.exists(path):
            return
        version, metadata, *offsets = self._files.read(path).splitlines()
        if index < len(offsets) and offsets[index] != "-":
            offsets[index] = change(offsets[index])
        self._files.write(path, "\n".join([version, metadata, *offsets]))
        # Hadoop's sum of the file as it was.
        self._files.remove(f"{self.checkpoint}/offsets/.{batch}.crc")
        self._known = None

    def latest(self) -> OffsetEntry | None:
        """The newest batch. After the first time only the next numbers are looked for."""
        if self._latest < 0 or self.entry(self._latest) is None:
            self._latest = last_number(self._files, f"{self.checkpoint}/offsets") or 0
        while self._files.exists(f"{self.checkpoint}/offsets/{self._latest + 1}"):
            self._latest += 1
        # An entry is written once: what was read of the newest stays true.
        self._known = self.entry(self._latest)
        return self._known

    def latest_batch(self) -> int:
        """The newest batch; 0 before the first."""
        entry = self.latest()
        return 0 if entry is None else entry.batch

    def watermark_ms(self) -> int:
        """The watermark that the newest batch began with; 0 before the first."""
        entry = self.latest()
        return 0 if entry is None else entry.watermark_ms

    def timestamp_ms(self) -> int:
        """The time of the newest batch; 0 before the first."""
        entry = self.latest()
        return 0 if entry is None else entry.timestamp_ms


class _LogUntil(OffsetLog):
    def __init__(self, files: Files, checkpoint: str, batch: int) -> None:
        super().__init__(files, checkpoint)
        self._batch = batch

    def latest(self) -> OffsetEntry | None:
        return self.entry(self._batch)
