"""A program as one Structured Streaming query: its offset log knows every batch, its time and its
input; a batch runs the program's outputs and is committed after them.

The query lives by a clock that stands still until the next interval is over, so that the offset log
notes multiples of the interval as batch times, and a batch that is run again has its old time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headwater.dstream.inputs import Input, SourceLog, branch_of, union_of
from headwater.dstream.listener import (
    BatchEvent,
    BatchInfo,
    BatchTime,
    OutputOperationEvent,
    OutputOperationInfo,
    StreamingListener,
    StreamInputInfo,
    tell,
)
from headwater.dstream.nodes import Node
from headwater.dstream.outputs import Output
from headwater.dstream.pacing import Clock, first_batch_ms
from headwater.dstream.program import Program
from headwater.dstream.saving import Home, Saved
from headwater.errors import DStreamInputGone
from headwater.local.processes import wait_until
from headwater.runtime.clock import ManualClock, start_on
from headwater.runtime.offsets import OffsetEntry, OffsetLog
from headwater.runtime.storage import Files, last_number
from headwater.settings import CHECKPOINT_FILES

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_FEWEST_BATCHES_KEPT = 100
_TIME_TO_COMMIT_S = 2.0
"""How long a stop waits for the running batch before it is cut off, to be run again later."""

_LOCAL_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


class Engine:
    """Runs one program. `failure` is what ended it, where something did."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        program: Program,
        home: Home,
        files: Files,
        saved: Saved,
        clock: Clock,
        listeners: Sequence[StreamingListener],
    ) -> None:
        self._spark = spark
        self.interval_ms = program.interval_ms
        self._nodes = program.nodes
        self._chained = program.chained()
        self._inputs = [node for node in program.nodes if isinstance(node, Input)]
        self._outputs = program.outputs
        self._home = home
        self._files = files
        self._saved = saved
        self._clock = clock
        self._listeners = listeners
        self._log = OffsetLog(files, home.query)
        self._query_clock: ManualClock | None = None
        self._query: StreamingQuery | None = None
        self._query_is_known = threading.Event()
        self._stop = threading.Event()
        self._last_ms: int | None = None
        self._batch_is_done = threading.Condition()
        self._is_enough = False
        self._due_ms = -1
        self._done_ms = -1
        self._now_ms = -1
        self._began_ms = -1
        self._reach_ms = 0
        self._first_ms = 0
        self.batch = -1
        self.zero_ms = 0
        self.run_id = ""
        """The id of the query: the same after a restart."""
        self.failure: BaseException | None = None
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._pace, name="dstream batches", daemon=True)

    @property
    def home(self) -> str:
        """The folder that this program's data is kept in."""
        return self._home.folder

    def last_committed(self) -> int | None:
        """The last batch that the checkpoint says is done."""
        return last_number(self._files, f"{self._home.query}/commits")

    @property
    def now_ms(self) -> int:
        """The time of the newest batch."""
        return self._now_ms

    @property
    def spark_context(self) -> SparkContext:
        return self._spark.sparkContext

    def start(self) -> None:
        self._reach_ms = max(node.reach_ms for node in self._nodes)
        for position, node in enumerate(self._inputs, start=1):
            node.log = SourceLog(self._files, f"{self._home.query}/sources/{position}")
        for key, value in self._settings().items():
            self._spark.conf.set(key, value)
        self._whole = union_of(self._spark, self._inputs)
        self._began_ms = self._clock.now_ms()
        self._first_ms, is_resumed = self._position()
        if is_resumed:
            self._saved.restore(self.spark_context, self._first_ms)
        self._thread.start()

    def finish(self, *, gracefully: bool) -> None:
        """Ends the program: now, or after the batch that takes what has come until now."""
        if gracefully and not self.ended.is_set():
            self._last_ms = first_batch_ms(self._clock.now_ms(), self.interval_ms)
            self._thread.join()
        self._stop.set()
        with self._batch_is_done:
            self._batch_is_done.notify_all()
        self._thread.join(timeout=60)
        self.ended.set()

    def finish_batch(self) -> None:
        """Ends the program after the batch that runs."""
        self._is_enough = True
        with self._batch_is_done:
            if self._done_ms >= self._due_ms:
                self._stop.set()
        self._thread.join()
        self.ended.set()

    def input_rdd(self, node: Node, time_ms: int) -> RDD[Any]:
        """See nodes.Timeline."""
        assert isinstance(node, Input)
        position = self._inputs.index(node)
        batch = self.batch + (time_ms - self._now_ms) // self.interval_ms
        start, end = self._offsets(batch - 1, position), self._offsets(batch, position)
        if end is None or start == end:
            return node.no_rows(end)

        def frame() -> DataFrame:
            if batch != self.batch:
                return node.part(self._spark, start, end)
            assert self._query is not None
            java: Any = self._query._jsq
            return branch_of(self._spark, java.streamingQuery(), position)

        return node.to_rdd(frame, start, end)

    def _offsets(self, batch: int, position: int) -> str | None:
        if batch < 0:
            return None
        entry = self._log.entry(batch)
        if entry is None:
            raise DStreamInputGone(batch, self._home.query)
        return entry.offsets[position + 1]

    def _settings(self) -> dict[str, str]:
        batches = self._reach_ms // self.interval_ms + 10
        settings = {
            # The rows of a batch are taken from below the query's plan, as a batch of their own.
            "spark.sql.streaming.unsupportedOperationCheck": "false",
            "spark.sql.streaming.minBatchesToRetain": str(max(_FEWEST_BATCHES_KEPT, batches)),
            "spark.sql.streaming.stopTimeout": "5s",
            "spark.sql.adaptive.enabled": "false",
        }
        if "://" not in self._home.folder:
            settings[CHECKPOINT_FILES] = _LOCAL_FILES
        return settings

    def _position(self) -> tuple[int, bool]:
        """The time of the next batch, and whether there were batches before this start."""
        entry = self._log.latest()
        if entry is None:
            first = first_batch_ms(self._clock.now_ms(), self.interval_ms)
            self.zero_ms = first - self.interval_ms
            return first, False
        self.zero_ms = entry.timestamp_ms - (entry.batch + 1) * self.interval_ms
        committed = self.last_committed()
        is_done = committed is not None and committed >= entry.batch
        next_ms = entry.timestamp_ms + (self.interval_ms if is_done else 0)
        return next_ms, True

    def _pace(self) -> None:
        """One interval after the other: a slow batch delays the next, and none is left out."""
        try:
            due_ms = self._first_ms
            while self._last_ms is None or due_ms <= self._last_ms:
                if not self._clock.wait_until(due_ms, self._stop):
                    break
                self._due_ms = due_ms
                self._let_run(due_ms)
                self._await_batch(due_ms)
                if self.failure is not None or self._is_enough or self._stop.is_set():
                    break
                due_ms += self.interval_ms
        except BaseException as problem:
            self.failure = self.failure or problem
        finally:
            self._end_query()
            self.ended.set()

    def _let_run(self, due_ms: int) -> None:
        if self._query_clock is not None:
            self._query_clock.set(due_ms)
            return
        self._query_clock = ManualClock(self._spark, due_ms)
        writer = (
            self._whole.writeStream.foreachBatch(self._run)
            .option("checkpointLocation", self._home.query)
            .trigger(processingTime=f"{self.interval_ms} milliseconds")
        )
        self._query = start_on(writer, self._query_clock)
        self.run_id = str(self._query.id)
        self._query_is_known.set()

    def _await_batch(self, due_ms: int) -> None:
        assert self._query is not None
        with self._batch_is_done:
            while self._done_ms < due_ms and self.failure is None and not self._stop.is_set():
                self._batch_is_done.wait(0.5)
                if not self._query.isActive and self._done_ms < due_ms:
                    self.failure = self.failure or self._query.exception()
                    return

    def _end_query(self) -> None:
        # Java holds the function that it calls, which must not hold Java's query in turn.
        query, self._query = self._query, None
        if query is None or not query.isActive:
            return
        wait_until(lambda: not query.status["isTriggerActive"], timeout_s=_TIME_TO_COMMIT_S)
        with contextlib.suppress(Exception):
            query.stop()

    def _run(self, frame: DataFrame, batch: int) -> None:
        try:
            self._query_is_known.wait()
            entry = self._log.entry(batch)
            assert entry is not None
            self._run_batch(entry)
        except BaseException as problem:
            if self._stop.is_set():
                # Spark searches the message of what a batch raises: a long one overflows its stack.
                raise InterruptedError("the program was stopped") from None
            self.failure = problem
            raise
        finally:
            with self._batch_is_done:
                self._batch_is_done.notify_all()

    def _run_batch(self, entry: OffsetEntry) -> None:
        self.batch, self._now_ms = entry.batch, entry.timestamp_ms
        time = entry.timestamp_ms
        due = max(time, self._began_ms)
        records = self._records()
        self._tell("onBatchSubmitted", BatchEvent(BatchInfo(BatchTime(time), due, records)))
        began = self._clock.now_ms()
        info = BatchInfo(BatchTime(time), due, records, began)
        self._tell("onBatchStarted", BatchEvent(info))
        for node in self._chained:
            node.rdd(time)
        done = {}
        for number, output in enumerate(self._outputs):
            done[number] = self._run_output(number, output, time)
        self._saved.note(time)
        for node in self._nodes:
            node.forget(time)
        self._tidy()
        ended = self._clock.now_ms()
        info = BatchInfo(BatchTime(time), due, records, began, ended, done)
        self._tell("onBatchCompleted", BatchEvent(info))
        with self._batch_is_done:
            self._done_ms = time

    def _run_output(self, number: int, output: Output, time_ms: int) -> OutputOperationInfo:
        began = self._clock.now_ms()
        about = (BatchTime(time_ms), number, output.name, began)
        self._tell("onOutputOperationStarted", OutputOperationEvent(OutputOperationInfo(*about)))
        try:
            rdd = output.node.rdd(time_ms)
            if rdd is not None:
                output.function(datetime.fromtimestamp(time_ms / 1000), rdd)
        except BaseException as problem:
            failed = OutputOperationInfo(*about, self._clock.now_ms(), str(problem))
            self._tell("onOutputOperationCompleted", OutputOperationEvent(failed))
            raise
        info = OutputOperationInfo(*about, self._clock.now_ms())
        self._tell("onOutputOperationCompleted", OutputOperationEvent(info))
        return info

    def _records(self) -> dict[int, StreamInputInfo]:
        found = {}
        for position, node in enumerate(self._inputs):
            start, end = (
                self._offsets(self.batch - 1, position),
                self._offsets(self.batch, position),
            )
            count = node.records(start, end) if end is not None and start != end else 0
            number = self._nodes.index(node)
            found[number] = StreamInputInfo(number, count)
        return found

    def _tidy(self) -> None:
        oldest = self._log.entry(self.batch - self._reach_ms // self.interval_ms - 1)
        if oldest is None:
            return
        for position, node in enumerate(self._inputs):
            until = oldest.offsets[position + 1]
            if until is not None:
                node.tidy(until)

    def _tell(self, call: str, event: Any) -> None:
        tell(self._listeners, call, event)
