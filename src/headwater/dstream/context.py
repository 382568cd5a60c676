"""StreamingContext: where a DStream program begins, runs and ends."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headwater.dstream.engine import Engine
from headwater.dstream.failures import explained
from headwater.dstream.inputs import BinaryRecords, TextFiles
from headwater.dstream.listener import StreamingListener, StreamingStarted, tell
from headwater.dstream.nodes import Node, Queue, Transformed
from headwater.dstream.pacing import Clock, WallClock
from headwater.dstream.presence import Presence, presence
from headwater.dstream.program import Program
from headwater.dstream.receivers import ReceiverInput, SocketReceiver
from headwater.dstream.saving import Home, Saved, newest_home, next_home
from headwater.dstream.stream import DStream
from headwater.dstream.unsupported import Explains
from headwater.errors import (
    ContextAlreadyStarted,
    ContextStopped,
    DStreamUnsupported,
    HeadwaterError,
    InvalidBatchInterval,
    SlidesDiffer,
    TooFewCores,
)
from headwater.runtime.storage import Files, Storage

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext, StorageLevel

    from headwater.dstream.receivers import Receiver


class StreamingContext(Explains):
    """Runs the streams that are made from it, a batch every `batchDuration` seconds.

    ```python
    ssc = StreamingContext(sc, 1)
    ssc.socketTextStream("localhost", 9999).pprint()
    ssc.start()
    ssc.awaitTermination()
    ```
    """

    _activeContext: StreamingContext | None = None

    def __init__(self, sparkContext: SparkContext, batchDuration: float | None = None) -> None:
        if not isinstance(batchDuration, int | float) or round(batchDuration * 1000) <= 0:
            raise InvalidBatchInterval(batchDuration)
        self._sc = sparkContext
        self._program = Program(sparkContext, round(batchDuration * 1000))
        self._listeners: list[StreamingListener] = []
        self._clock: Clock = WallClock()
        self._begun_ms = self._clock.now_ms()
        self._checkpoint: str | None = None
        self._resumes = False
        self._engine: Engine | None = None
        self._own_folder: str | None = None
        self._receivers: list[ReceiverInput] = []
        self._stopped = threading.Event()
        self._presence: Presence | None = None
        self._closing = threading.Lock()

    # Where a program comes from

    @classmethod
    def getOrCreate(
        cls, checkpointPath: str, setupFunc: Callable[[], StreamingContext]
    ) -> StreamingContext:
        """The context that setupFunc declares; it goes on where the checkpoint ended, if there
        is one. The declarations always come from setupFunc: only data is read from the checkpoint.
        """
        ssc = setupFunc()
        ssc.checkpoint(checkpointPath)
        ssc._resumes = True
        return ssc

    @classmethod
    def getActive(cls) -> StreamingContext | None:
        """The context that has started and not ended, if any."""
        active = StreamingContext._activeContext
        if active is not None and active._stopped.is_set():
            StreamingContext._activeContext = active = None
        return active

    @classmethod
    def getActiveOrCreate(
        cls, checkpointPath: str | None, setupFunc: Callable[[], StreamingContext]
    ) -> StreamingContext:
        """The active context, or else as getOrCreate."""
        if not callable(setupFunc):
            raise TypeError("setupFunc should be callable.")
        active = cls.getActive()
        if active is not None:
            return active
        return setupFunc() if checkpointPath is None else cls.getOrCreate(checkpointPath, setupFunc)

    @property
    def sparkContext(self) -> SparkContext:
        """The SparkContext that runs the batches."""
        return self._sc

    @property
    def batchId(self) -> int:
        """The number of the running batch: the same when the batch is run again."""
        return -1 if self._engine is None else self._engine.batch

    @property
    def runId(self) -> str:
        """Names this program's checkpoint: with batchId the key of an idempotent write."""
        return "" if self._engine is None else self._engine.run_id

    # Inputs

    def socketTextStream(
        self, hostname: str, port: int, storageLevel: StorageLevel | None = None
    ) -> DStream[str]:
        """Lines from a TCP server; each is stored before it is processed."""
        return self.receiverStream(SocketReceiver(hostname, port))

    def textFileStream(self, directory: str) -> DStream[str]:
        """Lines of files that are moved into a folder after the program began."""
        interval_ms, folder = self._program.interval_ms, self._absolute(directory)
        return self._input(
            TextFiles(self._program, interval_ms, folder, newer_than_ms=self._begun_ms)
        )

    def binaryRecordsStream(self, directory: str, recordLength: int) -> DStream[bytes]:
        """Records of one length, from files that are moved into a folder."""
        interval_ms, folder = self._program.interval_ms, self._absolute(directory)
        return self._input(
            BinaryRecords(
                self._program, interval_ms, folder, recordLength, newer_than_ms=self._begun_ms
            )
        )

    def queueStream(
        self,
        rdds: Sequence[Any],
        oneAtATime: bool = True,
        default: Any | None = None,
    ) -> DStream[Any]:
        """RDDs, or lists, from a queue: one per batch, or all in the first; then the default."""
        from pyspark import RDD

        def as_rdd(given: Any) -> RDD[Any]:
            return given if isinstance(given, RDD) else self._sc.parallelize(given)

        queued = [as_rdd(given) for given in rdds]
        last = None if not default else as_rdd(default)
        if not queued and last is not None:
            queued = [self._sc.parallelize([])]
        node = Queue(
            self._program,
            self._program.interval_ms,
            queued,
            one_at_a_time=oneAtATime,
            default=last,
        )
        return self._input(node)

    def receiverStream(self, receiver: Receiver) -> DStream[Any]:
        """What a receiver of your own stores. It runs on an executor and takes a core."""
        node = ReceiverInput(self._program, self._program.interval_ms, receiver)
        self._receivers.append(node)
        return self._input(node)

    def union(self, *dstreams: DStream[Any]) -> DStream[Any]:
        """The elements of all streams."""
        if not dstreams:
            raise ValueError("should have at least one DStream to union")
        if len(dstreams) == 1:
            return dstreams[0]
        self._one_slide("union", dstreams)
        return self.transform(list(dstreams), lambda rdds: self._sc.union(list(rdds)))

    def transform(
        self, dstreams: Sequence[DStream[Any]], transformFunc: Callable[[Sequence[RDD[Any]]], Any]
    ) -> DStream[Any]:
        """transformFunc of the list of the streams' RDDs."""
        self._one_slide("transform", dstreams)
        parents = [stream._node for stream in dstreams]
        node = Transformed(
            self._program, parents, lambda _, *rdds: transformFunc(rdds), patient=False
        )
        return DStream(self._program.add(node), self)

    # Settings

    def checkpoint(self, directory: str) -> None:
        """Where offsets, state and received records are kept, so that getOrCreate can go on."""
        self._checkpoint = self._absolute(directory)

    def remember(self, duration: float) -> None:
        """Keeps the RDDs of every stream at least this many seconds, for slice()."""
        self._program.remembered_ms = round(duration * 1000)

    def addStreamingListener(self, streamingListener: StreamingListener) -> None:
        """Tells a listener about batches and receivers."""
        self._listeners.append(streamingListener)

    def useClock(self, clock: Clock) -> None:
        """Lives by another clock: a `SteppedClock` lets a test say when a batch is due."""
        self._clock = clock
        self._begun_ms = clock.now_ms()

    # Life

    def start(self) -> None:
        """Begins to run batches, in the background."""
        if self._stopped.is_set():
            raise ContextStopped()
        active = StreamingContext.getActive()
        if active is self:
            warnings.warn("this StreamingContext has already been started", stacklevel=2)
            return
        if active is not None:
            raise ContextAlreadyStarted("another context starts")
        self._program.settle(has_checkpoint=self._checkpoint is not None)
        self._require_cores()
        try:
            self._begin()
        except BaseException:
            self._hide()
            raise
        StreamingContext._activeContext = self
        tell(self._listeners, "onStreamingStarted", StreamingStarted(self._clock.now_ms()))
        threading.Thread(target=self._watch, name="dstream end", daemon=True).start()

    def awaitTermination(self, timeout: float | None = None) -> None:
        """Waits until the program ends; raises what ended it."""
        self.awaitTerminationOrTimeout(timeout)

    def awaitTerminationOrTimeout(self, timeout: float | None) -> bool:
        """Whether the program ended within timeout seconds; raises what ended it."""
        is_over = self._stopped.wait(timeout)
        engine = self._engine
        if engine is not None and engine.failure is not None:
            raise self._explained(engine) from engine.failure
        return is_over

    def _explained(self, engine: Engine) -> HeadwaterError:
        assert engine.failure is not None
        return explained(engine.failure, engine.batch, is_kept=self._checkpoint is not None)

    def stop(self, stopSparkContext: bool = True, stopGraceFully: bool = False) -> None:
        """Ends the program; gracefully: after what was received is processed."""
        if self._engine is not None and not self._stopped.is_set():
            if stopGraceFully:
                self._stop_receivers()
            self._engine.finish(gracefully=stopGraceFully)
            self._stop_receivers()
        self._close()
        if stopSparkContext:
            self._sc.stop()

    def stopAfterBatch(self) -> None:
        """Ends the program after the batch that runs; what else was received is for the next
        start."""
        if self._engine is not None and not self._stopped.is_set():
            self._engine.finish_batch()
            self._stop_receivers()
        self._close()

    def _input(self, node: Node) -> DStream[Any]:
        return DStream(self._program.add(node), self)

    def _absolute(self, path: str) -> str:
        """A path as the JVM and the executors find it too, wherever they were started."""
        java: Any = self._sc._jsc
        is_local = str(java.hadoopConfiguration().get("fs.defaultFS")).startswith("file:")
        return os.path.abspath(path) if is_local and ":" not in path else path

    def _one_slide(self, operation: str, dstreams: Sequence[DStream[Any]]) -> None:
        slides = [stream._slideDuration for stream in dstreams]
        if len(set(slides)) > 1:
            raise SlidesDiffer(operation, slides)

    def _slice(self, node: Node, begin_ms: int, end_ms: int) -> list[RDD[Any]]:
        if self._engine is None:
            raise DStreamUnsupported(
                "slice() before start()", "no batch has run yet", "call it while the context runs"
            )
        return node.between(max(begin_ms, self._engine.zero_ms), min(end_ms, self._engine.now_ms))

    def _require_cores(self) -> None:
        cores = _cores(self._sc)
        if self._receivers and cores <= len(self._receivers):
            raise TooFewCores(len(self._receivers), cores)

    def _make_engine(self) -> Engine:
        from pyspark.sql import SparkSession

        folder = self._checkpoint
        if folder is None:
            folder = self._own_folder = tempfile.mkdtemp(prefix="headwater-dstream-")
        spark = SparkSession.builder.getOrCreate().newSession()
        files = Files(Storage(folder, "dstream"), spark)
        home = newest_home(files, folder) if self._resumes else None
        home = home or next_home(files, folder)
        saved = Saved(files, home, self._program.nodes)
        self._place_inputs(files, home, saved)
        self._sc.setCheckpointDir(home.rdds)
        return Engine(
            spark,
            program=self._program,
            home=home,
            files=files,
            saved=saved,
            clock=self._clock,
            listeners=self._listeners,
        )

    def _place_inputs(self, files: Files, home: Home, saved: Saved) -> None:
        begun_ms = saved.check_program(self._program.interval_ms, self._begun_ms)
        for number, node in enumerate(self._program.nodes):
            if isinstance(node, ReceiverInput):
                node.place(files, home.received(number), number)
            elif isinstance(node, TextFiles | BinaryRecords):
                node.newer_than_ms = begun_ms

    def _watch(self) -> None:
        assert self._engine is not None
        for node in self._receivers:
            node.start(self._sc, self._listeners)
        self._engine.ended.wait()
        self._stop_receivers()
        self._close()

    def _stop_receivers(self) -> None:
        for node in self._receivers:
            node.stop()

    def _begin(self) -> None:
        """The engine runs; other processes see it, where somebody announced it."""
        shown = self._presence = presence()
        if shown is not None:
            shown.take()
            self._listeners.append(shown)
        self._engine = self._make_engine()
        self._program.engine = self._engine
        if shown is not None:
            shown.open(self._engine)
        self._engine.start()

    def _hide(self) -> None:
        # Who comes second waits: the process may end when the first has.
        with self._closing:
            shown, self._presence = self._presence, None
            if shown is not None:
                engine = self._engine
                has_failed = engine is not None and engine.failure is not None
                shown.close(self._explained(engine) if engine and has_failed else None)

    def _close(self) -> None:
        self._hide()
        if StreamingContext._activeContext is self:
            StreamingContext._activeContext = None
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)
        self._stopped.set()


def _cores(context: SparkContext) -> int:
    """How many tasks can run at once. `spark.default.parallelism` may say anything."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:\s*,.*)?\])?", str(context.master))
    if local is None:
        return context.defaultParallelism
    if local[1] == "*":
        java: Any = context._jvm
        return int(java.java.lang.Runtime.getRuntime().availableProcessors())
    return int(local[1] or 1)
