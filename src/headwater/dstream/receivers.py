"""Receivers: code that fetches records on an executor, and the log that keeps them.

What a receiver stores is written to a file, whole and under its final name, before a batch can see
it. The files are an input like any other: the query's offsets say which batch has taken which.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import socket
import threading
import time
import traceback
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.dstream.inputs import BatchFrame, FileInput
from headwater.dstream.listener import ReceiverEvent, ReceiverInfo, StreamingListener, tell
from headwater.dstream.nodes import Timeline
from headwater.errors import DStreamUnsupported
from headwater.runtime.storage import Files

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

BLOCK_S = 0.2
"""How long a single record waits for others before it is stored."""

RESTART_DELAY_S = 2.0
_LONGEST_BACKOFF_S = 30.0
_RECORDS_PER_ROW = 1_000


class Receiver:
    """Fetches records from somewhere. Override onStart and onStop.

    ```python
    class Numbers(Receiver):
        def onStart(self):
            threading.Thread(target=self.count, daemon=True).start()

        def onStop(self):
            pass

        def count(self):
            n = 0
            while not self.isStopped():
                self.store(n)
                n += 1
                time.sleep(0.1)
    ```
    """

    _desk: Desk | None = None

    def onStart(self) -> None:
        """Starts what fetches records, in threads of its own, and returns."""
        raise NotImplementedError

    def onStop(self) -> None:
        """Ends what onStart began."""
        raise NotImplementedError

    def store(self, data: Any) -> None:
        """Stores a record; or a list or an iterator of records, which are safe on return."""
        self._at_desk().store(data)

    def restart(self, message: str, error: BaseException | None = None) -> None:
        """Reports the message, calls onStop and, two seconds later, onStart; returns at once."""
        self._at_desk().restart(message, error)

    def stop(self, message: str = "") -> None:
        """Ends the receiver for good."""
        self._at_desk().close(message)

    def reportError(self, message: str, error: BaseException | None = None) -> None:
        """Tells the listeners; the receiver goes on."""
        self._at_desk().note("error", message, error)

    def isStarted(self) -> bool:
        return self._desk is not None and self._desk.is_started

    def isStopped(self) -> bool:
        """Whether onStop was called: threads of the receiver end when it is True."""
        return not self.isStarted()

    def _at_desk(self) -> Desk:
        if self._desk is None:
            raise RuntimeError("a receiver stores only while a context runs it")
        return self._desk


class Desk:
    """Beside a receiver on its executor: stores its records, restarts it, ends it."""

    def __init__(self, receiver: Receiver, folder: str, token: str) -> None:
        self._receiver = receiver
        self._folder = Path(folder)
        self._stop_file = self._folder / f"stop-{token}"
        self._buffer: list[Any] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._broken: BaseException | None = None
        executor = os.environ.get("SPARK_EXECUTOR_ID", "")
        self._place = {"host": socket.gethostname(), "executor": executor}
        self.is_started = False

    def run(self) -> None:
        """Until the program says so, or the receiver; raises what made storing impossible."""
        parent = os.getppid()
        self._receiver._desk = self
        try:
            self._begin()
            while not self._closed.wait(BLOCK_S) and not self._stop_file.exists():
                if os.getppid() != parent:
                    # The driver is gone: its next start has a receiver of its own.
                    os._exit(1)
                self._flush()
                if self._broken is not None:
                    raise self._broken
        finally:
            try:
                if self.is_started:
                    self._end()
            finally:
                self._flush()
                self.note("stopped", "")

    def store(self, data: Any) -> None:
        if isinstance(data, list | Iterator):
            self._write(list(data))
            return
        with self._lock:
            self._buffer.append(data)

    def store_soon(self, records: list[Any]) -> None:
        with self._lock:
            self._buffer.extend(records)

    def restart(self, message: str, error: BaseException | None) -> None:
        threading.Thread(target=self._restart, args=(message, error), daemon=True).start()

    def close(self, message: str) -> None:
        if message:
            self.note("error", message)
        self._closed.set()

    def note(self, kind: str, message: str, error: BaseException | None = None) -> None:
        """Leaves a word for the driver."""
        said = "" if error is None else "".join(traceback.format_exception(error))
        about = {"kind": kind, "message": message, "error": said, **self._place}
        notes = self._folder / "notes"
        beside = notes / f".{uuid.uuid4().hex}"
        beside.write_text(json.dumps(about))
        beside.rename(notes / f"{time.time_ns():020d}.json")

    def _begin(self) -> None:
        self.is_started = True
        self.note("started", "")
        self._receiver.onStart()

    def _end(self) -> None:
        self.is_started = False
        self._receiver.onStop()

    def _restart(self, message: str, error: BaseException | None) -> None:
        self.note("error", message, error)
        try:
            self._end()
            if not self._closed.wait(RESTART_DELAY_S) and not self._stop_file.exists():
                self._begin()
        except BaseException as problem:
            self._broken = problem

    def _flush(self) -> None:
        with self._lock:
            records, self._buffer = self._buffer, []
        if records:
            self._write(records)

    def _write(self, records: list[Any]) -> None:
        """One file, complete when it appears."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        starts = range(0, len(records), _RECORDS_PER_ROW)
        rows = [pickle.dumps(records[start : start + _RECORDS_PER_ROW]) for start in starts]
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}-{len(records)}.parquet"
        hidden = self._folder / "stored" / f".{name}"
        with open(hidden, "wb") as file:
            pq.write_table(pa.table({"value": pa.array(rows, pa.binary())}), file)
            file.flush()
            os.fsync(file.fileno())
        hidden.rename(self._folder / "stored" / name)


class SocketReceiver(Receiver):
    """Lines from a TCP server. Where the server ends or cannot be reached, tries again."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port

    def onStart(self) -> None:
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def onStop(self) -> None:
        """The thread looks by itself whether it shall end; what it has read is then stored."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=10 * BLOCK_S)

    def _receive(self) -> None:
        address = f"{self._host}:{self._port}"
        try:
            with socket.create_connection((self._host, self._port), timeout=10) as connection:
                connection.settimeout(BLOCK_S)
                self._read(connection)
            if not self.isStopped():
                self.restart(f"{address} has no more data")
        except OSError as problem:
            if not self.isStopped():
                self.restart(f"cannot receive from {address}", problem)

    def _read(self, connection: socket.socket) -> None:
        rest = b""
        while not self.isStopped():
            try:
                received = connection.recv(1 << 16)
            except TimeoutError:
                continue
            if not received:
                break
            *lines, rest = (rest + received).split(b"\n")
            self._at_desk().store_soon([_line(line) for line in lines])
        if rest:
            self._at_desk().store_soon([_line(rest)])


def _line(received: bytes) -> str:
    return received.removesuffix(b"\r").decode("utf-8", errors="replace")


class ReceiverInput(FileInput):
    """The records that a receiver has stored."""

    _format = "parquet"

    def __init__(self, timeline: Timeline, slide_ms: int, receiver: Receiver) -> None:
        super().__init__(timeline, slide_ms, "", newer_than_ms=None)
        self._receiver = receiver
        self._home = Path()
        self._number = -1
        self._token = uuid.uuid4().hex
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._context: SparkContext | None = None
        self._tidied: str | None = None

    def place(self, files: Files, folder: str, number: int) -> None:
        """Where records are stored."""
        if "://" in folder and not folder.startswith("file:"):
            raise DStreamUnsupported(
                f"a receiver with the checkpoint directory {folder}",
                "receivers write files themselves",
                "a folder that the driver and every executor mount",
            )
        self._home = Path(_local(folder)).absolute()
        self._number = number
        for part in ("stored", "notes"):
            (self._home / part).mkdir(parents=True, exist_ok=True)
        for old in self._home.glob("stop-*"):
            old.unlink()
        self.folder = str(self._home / "stored")

    def _reader(self, reader: Any) -> Any:
        return reader.format("parquet").schema("value binary")

    def to_rdd(self, frame: BatchFrame, start: str | None, end: str) -> RDD[Any]:
        # By name, which begins with the time: a frame would order the files by their size.
        context = self.timeline.spark_context
        paths = sorted(_local(path) for path in self.log.paths(start, end))
        return context.parallelize(paths, context.defaultParallelism).flatMap(_stored)

    def records(self, start: str | None, end: str) -> int:
        names = [path.rsplit("/", 1)[-1] for path in self.log.paths(start, end)]
        return sum(int(name.removesuffix(".parquet").rsplit("-", 1)[-1]) for name in names)

    def tidy(self, until: str) -> None:
        """Removes what no batch will ask for again."""
        if until == self._tidied:
            return
        # After a start these are all paths that ever were; few files are still there.
        present = {entry.name for entry in os.scandir(self.folder)}
        for path in map(Path, map(_local, self.log.paths(self._tidied, until))):
            if path.name in present:
                path.unlink(missing_ok=True)
        self._tidied = until

    def start(self, context: SparkContext, listeners: Sequence[StreamingListener]) -> None:
        """Runs the receiver as a task of its own, and again where it dies."""
        self._context = context
        for target in (self._keep_running, self._listen):
            thread = threading.Thread(target=target, args=(listeners,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Ends the receiver after it has stored what it holds."""
        if self._stopping.is_set() or self._context is None:
            return
        self._stopping.set()
        (self._home / f"stop-{self._token}").touch()
        self._threads[0].join(timeout=10)
        if self._threads[0].is_alive():
            self._context.cancelJobGroup(self._token)
            self._threads[0].join(timeout=10)
        self._threads[1].join(timeout=10)

    def _keep_running(self, listeners: Sequence[StreamingListener]) -> None:
        assert self._context is not None
        wait_s = 0.0
        receiver, folder, token = self._receiver, str(self._home), self._token

        def run(_: Any) -> Iterator[None]:
            Desk(receiver, folder, token).run()
            return iter(())

        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._context.setJobGroup(token, "receiver", interruptOnCancel=True)
                self._context.parallelize([0], 1).mapPartitions(run).collect()
                return
            except Exception as problem:
                if self._stopping.is_set():
                    return
                note = {"message": "the receiver died", "error": str(problem)}
                self._tell(listeners, "onReceiverError", note)
            wait_s = next_wait_s(wait_s, time.monotonic() - began)
            self._stopping.wait(wait_s)

    def _listen(self, listeners: Sequence[StreamingListener]) -> None:
        calls = {
            "started": "onReceiverStarted",
            "error": "onReceiverError",
            "stopped": "onReceiverStopped",
        }
        while True:
            is_last = not self._threads[0].is_alive()
            for path in sorted((self._home / "notes").glob("*.json")):
                note = json.loads(path.read_text())
                path.unlink()
                self._tell(listeners, calls[note["kind"]], note)
            if is_last:
                return
            self._threads[0].join(timeout=BLOCK_S)

    def _tell(
        self, listeners: Sequence[StreamingListener], call: str, note: dict[str, str]
    ) -> None:
        info = ReceiverInfo(
            self._number,
            f"{type(self._receiver).__name__}-{self._number}",
            call != "onReceiverStopped",
            note["message"],
            note["error"],
            int(time.time() * 1000) if call == "onReceiverError" else -1,
            note.get("host", ""),
            note.get("executor") or self._only_executor(),
        )
        tell(listeners, call, ReceiverEvent(info))

    def _only_executor(self) -> str:
        """Without a cluster there is one, with the driver's name."""
        master = "" if self._context is None else str(self._context.master)
        return "driver" if re.match(r"local(\[|$)", master) else ""


def next_wait_s(waited_s: float, ran_s: float) -> float:
    """How long to wait before a receiver that died runs again: longer each time, and short again
    once it has run for a while.

    >>> next_wait_s(0, 1), next_wait_s(2, 1), next_wait_s(20, 1), next_wait_s(30, 90)
    (2.0, 4.0, 30.0, 2.0)
    """
    if ran_s > _LONGEST_BACKOFF_S:
        return RESTART_DELAY_S
    return min(max(RESTART_DELAY_S, 2.0 * waited_s), _LONGEST_BACKOFF_S)


def _local(path: str) -> str:
    return path.removeprefix("file://").removeprefix("file:")


def _stored(path: str) -> Iterator[Any]:
    """The records of a file, in the order in which they were stored."""
    import pyarrow.parquet as pq

    with open(path, "rb") as file:
        for row in pq.read_table(file)["value"]:
            yield from pickle.loads(row.as_py())
