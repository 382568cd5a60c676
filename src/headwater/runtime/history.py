"""What happened, on disk: every event as a line of JSON, bounded, beyond the end of a run.

<project>/.headwater/<pipeline>/history/<first number>.jsonl

Events are numbered for ever. A file is named after its first number and closed when it is full;
the oldest is removed when there are too many. A line that was cut short is left out.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from headwater.events import Event

_FILE_BYTES = 4 * 1024 * 1024
_FILES = 8
_WAITING = 10_000
_CLOSES_S = 5.0


@dataclass(frozen=True, slots=True)
class Record:
    """One event as it was written: its number, when it happened, the event's name and facts."""

    number: int
    at: str
    kind: str
    facts: dict[str, Any]

    @property
    def table(self) -> str | None:
        found = self.facts.get("table")
        return None if found is None else str(found)


def history_folder(local_folder: Path, pipeline: str) -> Path:
    return local_folder / pipeline / "history"


class HistoryWriter:
    """Appends events in a thread of its own.

    `report` never blocks and never raises: where the disk cannot keep up or refuses, events are
    left out and counted in `dropped`.
    """

    def __init__(self, folder: Path, *, file_bytes: int = _FILE_BYTES, files: int = _FILES) -> None:
        self._folder = folder
        self._file_bytes = file_bytes
        self._files = files
        self._waiting: queue.Queue[tuple[str, Event] | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._work, name="headwater-history", daemon=True)
        self._file: IO[bytes] | None = None
        self._next = 1
        self.dropped = 0

    def start(self) -> None:
        self._thread.start()

    def report(self, event: Event) -> None:
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        try:
            self._waiting.put_nowait((now, event))
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Returns when everything that was reported is on disk, at the latest after seconds."""
        if not self._thread.is_alive():
            return
        try:
            self._waiting.put(None, timeout=_CLOSES_S)
        except queue.Full:
            return
        self._thread.join(_CLOSES_S)

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            try:
                self._append(*item)
            except (OSError, TypeError, ValueError):
                self.dropped += 1
        if self._file is not None:
            self._file.close()

    def _append(self, at: str, event: Event) -> None:
        file = self._file or self._open()
        facts, kind = dataclasses.asdict(event), type(event).__name__
        record = {"n": self._next, "at": at, "kind": kind, "facts": facts}
        file.write(json.dumps(record, default=str, separators=(",", ":")).encode() + b"\n")
        self._next += 1
        if self._waiting.empty():
            file.flush()
        if file.tell() >= self._file_bytes:
            file.close()
            self._file = None

    def _open(self) -> IO[bytes]:
        """Goes on with the last file, or begins one; a line cut short stays a line of its own."""
        self._folder.mkdir(parents=True, exist_ok=True)
        known = _files(self._folder)
        last = known[-1] if known else None
        if last is not None:
            newest = max((r.number for r in _records(last, 0)), default=_first_number(last) - 1)
            self._next = max(self._next, newest + 1)
        if last is None or last.stat().st_size >= self._file_bytes:
            last = self._folder / f"{self._next:012}.jsonl"
            for old in known[: max(0, len(known) + 1 - self._files)]:
                old.unlink(missing_ok=True)
        self._file = open(last, "ab")  # noqa: SIM115 - open until it is full
        if self._file.tell() and not _ends_with_newline(last):
            self._file.write(b"\n")
        return self._file


class HistoryReader:
    """Reads on from where it was; costs the new bytes only, and little where there are none.

    The first call begins `newest_bytes` before the end, so that a long history opens at once.
    """

    def __init__(self, folder: Path, *, newest_bytes: int | None = None) -> None:
        self._folder = folder
        self._file: Path | None = None
        self._position = 0
        self._newest_bytes = newest_bytes

    def new(self) -> Iterator[Record]:
        """The records that were written since the last call."""
        files = _files(self._folder)
        if self._file is not None and self._was_replaced():
            self._file, self._position = None, 0
        if self._file is None and self._newest_bytes is not None:
            files = _newest(files, self._newest_bytes)
        if self._file is not None and self._file in files:
            files = files[files.index(self._file) :]
        for file in files:
            if file != self._file:
                self._file, self._position = file, 0
            yield from self._read_on(file)

    def _was_replaced(self) -> bool:
        """A history that was removed begins anew, with a file of the same name."""
        assert self._file is not None
        try:
            return self._file.stat().st_size < self._position
        except FileNotFoundError:
            return False

    def _read_on(self, file: Path) -> Iterator[Record]:
        try:
            with open(file, "rb") as stream:
                stream.seek(self._position)
                for line in stream:
                    if not line.endswith(b"\n"):
                        return
                    self._position += len(line)
                    if (record := _parsed(line)) is not None:
                        yield record
        except FileNotFoundError:
            return


def read_history(folder: Path, *, since: int = 0) -> Iterator[Record]:
    """Every record with a number above `since`, oldest first; none where there is no history."""
    files = _files(folder)
    later = [file for file in files if _first_number(file) > since]
    for file in files[max(0, len(files) - len(later) - 1) :]:
        yield from _records(file, since)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*.jsonl") if file.stem.isdigit())


def _newest(files: list[Path], size: int) -> list[Path]:
    kept: list[Path] = []
    for file in reversed(files):
        kept.insert(0, file)
        size -= file.stat().st_size
        if size <= 0:
            break
    return kept


def _first_number(file: Path) -> int:
    return int(file.stem)


def _records(file: Path, since: int) -> Iterator[Record]:
    try:
        with open(file, "rb") as stream:
            for line in stream:
                record = _parsed(line)
                if record is not None and record.number > since:
                    yield record
    except FileNotFoundError:
        return


def _parsed(line: bytes) -> Record | None:
    """None for a line that was cut short."""
    try:
        found = json.loads(line)
        return Record(int(found["n"]), str(found["at"]), str(found["kind"]), dict(found["facts"]))
    except (ValueError, KeyError, TypeError):
        return None


def _ends_with_newline(file: Path) -> bool:
    with open(file, "rb") as stream:
        stream.seek(-1, 2)
        return stream.read(1) == b"\n"
