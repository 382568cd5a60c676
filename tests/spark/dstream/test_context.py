"""Wrong use is refused with a code; a context knows its state."""

from __future__ import annotations

import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from operator import add, sub
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater import Pipeline, errors
from headwater.connectors import delta
from headwater.dstream import (
    DStream,
    KafkaUtils,
    Receiver,
    SteppedClock,
    StreamingContext,
    StreamingListener,
)
from headwater.local.processes import wait_until

DEADLINE_S = 300.0


@pytest.fixture
def ssc(spark: SparkSession) -> Iterator[StreamingContext]:
    context = StreamingContext(spark.sparkContext, 1)
    context.useClock(SteppedClock(0))
    yield context
    context.stop(stopSparkContext=False)


def clock_of(ssc: StreamingContext) -> SteppedClock:
    assert isinstance(ssc._clock, SteppedClock)
    return ssc._clock


def until(ssc: StreamingContext, condition: Callable[[], Any]) -> None:
    """Raises what ended the program, where something did."""
    assert wait_until(
        lambda: bool(condition() or ssc.awaitTerminationOrTimeout(0)), timeout_s=DEADLINE_S
    )
    assert condition()


@pytest.mark.parametrize("interval", [0, -1, None, "1"])
def test_an_interval_is_a_number_above_zero(spark: SparkSession, interval: Any) -> None:
    with pytest.raises(errors.InvalidBatchInterval):
        StreamingContext(spark.sparkContext, interval)


def test_a_window_is_a_multiple_of_the_slide(ssc: StreamingContext) -> None:
    stream = ssc.queueStream([[1]])
    for window, slide in ((2.5, 1), (2, 1.5), (0, None)):
        with pytest.raises(ValueError, match="DSTREAM_WINDOW"):
            stream.window(window, slide)
    with pytest.raises(errors.SlidesDiffer):
        stream.union(stream.window(2, 2))
    with pytest.raises(errors.InvalidCheckpointInterval):
        stream.checkpoint(1.5)


def test_a_program_needs_an_output_and_state_a_folder(ssc: StreamingContext) -> None:
    pairs = ssc.queueStream([[("a", 1)]])
    with pytest.raises(errors.NoOutputs):
        ssc.start()
    pairs.reduceByKeyAndWindow(add, sub, 5, 1).pprint()
    with pytest.raises(errors.CheckpointDirectoryMissing):
        ssc.start()


def test_more_receivers_than_cores_leave_none(ssc: StreamingContext) -> None:
    for port in (1, 2):
        ssc.socketTextStream("127.0.0.1", port).pprint()
    with pytest.raises(errors.TooFewCores):
        ssc.start()


def test_what_has_another_way_says_so(ssc: StreamingContext) -> None:
    with pytest.raises(errors.DStreamUnsupported, match="createDirectStream"):
        KafkaUtils.createStream(ssc, "zookeeper", "group", {})


class Heard(StreamingListener):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.batches: list[Any] = []

    def onStreamingStarted(self, streamingStarted: Any) -> None:
        self.calls.append("started")

    def onBatchStarted(self, batchStarted: Any) -> None:
        # Spark logs what a listener raises, and goes on.
        raise RuntimeError("a listener's own")

    def onOutputOperationCompleted(self, outputOperationCompleted: Any) -> None:
        self.calls.append(outputOperationCompleted.outputOperationInfo().name().split(" ")[0])

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        self.batches.append(batchCompleted.batchInfo())


def test_a_slow_batch_delays_the_next_and_says_so(ssc: StreamingContext) -> None:
    heard = Heard()
    clock = clock_of(ssc)
    ssc.addStreamingListener(heard)
    ssc.remember(5)
    stream = ssc.queueStream([[1], [2], [3]])
    with pytest.raises(errors.DStreamUnsupported, match="before start"):
        stream.slice(1, 2)

    def slow(when: Any, rdd: Any) -> None:
        if when.timestamp() == 1:
            clock.advance(2.5)

    stream.foreachRDD(slow)
    ssc.start()
    with pytest.raises(errors.ContextAlreadyStarted):
        stream.map(str)
    with pytest.warns(UserWarning, match="already been started"):
        ssc.start()
    assert StreamingContext.getActive() is ssc
    clock.advance(1)
    until(ssc, lambda: len(heard.batches) == 3)
    times = [info.batchTime().milliseconds() for info in heard.batches]
    assert times == [1000, 2000, 3000]
    assert [info.schedulingDelay() for info in heard.batches] == [0, 1500, 500]
    assert [info.processingDelay() for info in heard.batches] == [2500, 0, 0]
    assert [info.totalDelay() for info in heard.batches] == [2500, 1500, 500]
    assert heard.calls == ["started", "foreachRDD", "foreachRDD", "foreachRDD"]
    assert [rdd.collect() for rdd in stream.slice(2, 3)] == [[2], [3]]
    # A time in between stands for the batch before; what is still to come is not made.
    assert [rdd.collect() for rdd in stream.slice(2.5, 60)] == [[2], [3]]
    assert ssc.awaitTerminationOrTimeout(0.01) is False
    ssc.stop(stopSparkContext=False)
    assert StreamingContext.getActive() is None
    assert ssc.awaitTerminationOrTimeout(1) is True
    with pytest.raises(errors.ContextStopped):
        ssc.start()


class Everything(StreamingListener):
    """The names of all calls, in order, and the events of each."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.events: dict[str, list[Any]] = defaultdict(list)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on"):
            return super().__getattribute__(name)

        def hear(event: Any) -> None:
            self.calls.append(name)
            self.events[name].append(event)

        return hear


def test_a_graceful_stop_processes_what_was_received_and_tells_all_of_it(
    ssc: StreamingContext,
) -> None:
    class Ending(Receiver):
        """Stores one by one, restarts itself once, and ends for good."""

        def onStart(self) -> None:
            self.starts = getattr(self, "starts", 0) + 1
            self.store(f"start {self.starts}")
            if self.starts == 1:
                self.restart("once more", ValueError("the first line"))
            else:
                self.stop("no more")

        def onStop(self) -> None:
            self.store(f"stop {self.starts}")

    heard, seen = Everything(), []
    ssc.addStreamingListener(heard)
    ssc.receiverStream(Ending()).foreachRDD(lambda rdd: seen.extend(rdd.collect()))
    ssc.start()
    until(ssc, lambda: "onReceiverStopped" in heard.calls)
    until(ssc, lambda: heard.calls.count("onReceiverError") == 2)
    info = heard.events["onReceiverStarted"][-1].receiverInfo()
    assert (info.streamId(), info.active(), info.lastErrorTime()) == (0, True, -1)
    assert info.location()
    assert info.executorId() == "driver"
    stopper = threading.Thread(target=ssc.stop, args=(False, True))
    stopper.start()
    # The batch that takes what is there is due at the next interval.
    assert wait_until(
        lambda: clock_of(ssc).advance(1) or not stopper.is_alive(), timeout_s=DEADLINE_S
    )
    assert seen == ["start 1", "stop 1", "start 2", "stop 2"]
    assert not heard.events["onReceiverStopped"][-1].receiverInfo().active()
    of_a_batch = [
        "onBatchSubmitted",
        "onBatchStarted",
        "onOutputOperationStarted",
        "onOutputOperationCompleted",
        "onBatchCompleted",
    ]
    assert [call for call in heard.calls if "Receiver" not in call][:6] == [
        "onStreamingStarted",
        *of_a_batch,
    ]
    submitted = [event.batchInfo() for event in heard.events["onBatchSubmitted"]]
    assert sum(info.numRecords() for info in submitted) == 4
    assert {number for info in submitted for number in info.streamIdToInputInfo()} == {0}
    output = heard.events["onOutputOperationCompleted"][-1].outputOperationInfo()
    assert output.description().startswith(f"foreachRDD at {__file__}:")


def test_a_socket_that_closes_and_comes_back_is_read_on(ssc: StreamingContext) -> None:
    heard, seen = Errors(), []
    ssc.addStreamingListener(heard)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_S)
        lines = ssc.socketTextStream("127.0.0.1", server.getsockname()[1])
        lines.foreachRDD(lambda rdd: seen.extend(rdd.collect()))
        ssc.start()
        for text in (b"one\ntwo", b"three\n"):
            # A last line without its end counts, too.
            connection, _ = server.accept()
            connection.sendall(text)
            connection.close()
        until(ssc, lambda: clock_of(ssc).advance(1) or len(seen) == 3)
    assert seen == ["one", "two", "three"]
    assert "has no more data" in heard.said[0]


def test_an_active_context_is_found_and_else_made(
    ssc: StreamingContext, spark: SparkSession, tmp_path: Path
) -> None:
    ssc.queueStream([[1]]).pprint()

    def made() -> StreamingContext:
        return StreamingContext(spark.sparkContext, 1)

    assert StreamingContext.getActiveOrCreate(str(tmp_path), made) is not ssc
    ssc.start()
    assert StreamingContext.getActiveOrCreate(str(tmp_path), made) is ssc
    assert StreamingContext.getActiveOrCreate(None, made) is ssc
    with pytest.raises(TypeError):
        StreamingContext.getActiveOrCreate(None, None)  # type: ignore[arg-type]


def test_a_workers_exception_ends_the_program_with_its_own_line(ssc: StreamingContext) -> None:
    def halved(number: int) -> float:
        return 1 / number

    line = halved.__code__.co_firstlineno + 1
    ssc.queueStream([[1, 0]]).map(halved).pprint()
    ssc.start()
    clock_of(ssc).advance(1)
    with pytest.raises(errors.DStreamFailed, match="ZeroDivisionError: division by zero") as raised:
        ssc.awaitTermination(DEADLINE_S)
    assert raised.value.where is not None
    assert (raised.value.where.file, raised.value.where.line) == (__file__, line)


def test_intervals_without_an_rdd_are_asked_for_once(ssc: StreamingContext, tmp_path: Path) -> None:
    """A function may give none; state then goes on from the last that there was."""
    calls: list[Any] = []
    seen: list[Any] = []

    def some(when: Any, rdd: Any) -> Any:
        calls.append(when)
        return rdd if when.second in (6, 8) else None

    ssc.checkpoint(str(tmp_path))
    pairs = ssc.queueStream([[("a", 1)]] * 8)
    state = pairs.transform(some).updateStateByKey(lambda new, old: (old or 0) + sum(new))
    state.foreachRDD(lambda when, rdd: seen.append((when.second, rdd.collect())))
    ssc.start()
    for _ in range(8):
        clock_of(ssc).advance(1)
    engine = ssc._engine
    assert engine is not None
    until(ssc, lambda: engine.last_committed() == 7)
    assert seen == [(6, [("a", 1)]), (7, [("a", 1)]), (8, [("a", 2)])]
    assert len(calls) == 8


def test_saved_state_does_not_make_tasks_grow(ssc: StreamingContext, tmp_path: Path) -> None:
    """What a task carries is the way back to what was saved; saved rarely, it becomes long."""
    ways: dict[int, list[int]] = {2: [], 100: []}

    def measured(every: int) -> Callable[[Any], None]:
        def measure(rdd: Any) -> None:
            rdd.count()
            ways[every].append(len(rdd.toDebugString().splitlines()))

        return measure

    ssc.checkpoint(str(tmp_path))
    pairs = ssc.queueStream([[("a", 1)]] * 24)
    for every in ways:
        state = pairs.updateStateByKey(lambda new, old: (old or 0) + sum(new))
        state.checkpoint(every).foreachRDD(measured(every))
    ssc.start()
    clock_of(ssc).advance(24)
    until(ssc, lambda: len(ways[100]) == 24)
    assert max(ways[2][12:]) <= max(ways[2][:12])
    assert ways[100][23] > 1.5 * ways[100][11]


def test_who_takes_a_default_too_is_given_the_time_as_by_spark(ssc: StreamingContext) -> None:
    seen: list[Any] = []

    class Keeper:
        def keep(self, rdd: Any) -> None:
            seen.append(rdd.collect())

    def timed(first: Any, second: Any = None) -> None:
        seen.append((first.second, second.collect()))

    stream = ssc.queueStream([[1]])
    stream.foreachRDD(timed)
    stream.foreachRDD(Keeper().keep)
    ssc.start()
    clock_of(ssc).advance(1)
    until(ssc, lambda: len(seen) == 2)
    assert seen == [(1, [1]), [1]]


class Errors(StreamingListener):
    def __init__(self) -> None:
        self.said: list[str] = []

    def onReceiverError(self, receiverError: Any) -> None:
        info = receiverError.receiverInfo()
        self.said.append(f"{info.lastErrorMessage()} {info.lastError()}")


def test_what_a_receiver_stored_outlives_its_death(ssc: StreamingContext, tmp_path: Path) -> None:
    # Made here, workers get the class by value, as they do from a script.
    class Failing(Receiver):
        """Stores two lists, each safe when stored, and dies once in between."""

        def __init__(self, marker: str) -> None:
            self.marker = Path(marker)

        def onStart(self) -> None:
            if not self.marker.exists():
                self.store([{"n": 1}, {"n": 2}])
                self.marker.touch()
                raise OSError("the line is cut")
            self.store(iter([{"n": 3}]))
            self.reportError("only a word")

        def onStop(self) -> None:
            pass

    heard, seen = Errors(), []
    ssc.addStreamingListener(heard)
    stream: DStream[Any] = ssc.receiverStream(Failing(str(tmp_path / "marker")))
    stream.foreachRDD(lambda rdd: seen.extend(rdd.collect()))
    ssc.start()
    [receiver] = ssc._receivers
    until(ssc, lambda: len(list(Path(receiver.folder).glob("[0-9]*.parquet"))) == 2)
    clock_of(ssc).advance(1)
    until(ssc, lambda: len(seen) == 3)
    assert [row["n"] for row in seen] == [1, 2, 3]
    until(ssc, lambda: len(heard.said) == 2)
    assert "the line is cut" in heard.said[0]
    assert "only a word" in heard.said[1]


def test_text_is_saved_once_and_a_half_written_folder_again(
    ssc: StreamingContext, tmp_path: Path
) -> None:
    half = tmp_path / "out-1000.txt"
    half.mkdir()
    (half / "part-00000").write_text("half")
    ssc.queueStream([["a", "b"]]).saveAsTextFiles(str(tmp_path / "out"), "txt")
    ssc.start()
    clock_of(ssc).advance(1)
    until(ssc, lambda: (half / "_SUCCESS").exists())
    assert sorted("".join(p.read_text() for p in half.glob("part-*")).split()) == ["a", "b"]


def test_a_stream_becomes_a_delta_table_that_a_pipeline_reads(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two streams into one table; a batch that is run again after its writes is not there twice."""
    table, clock, failing, empty = str(tmp_path / "table"), SteppedClock(0), [True], []

    def declared() -> StreamingContext:
        ssc = StreamingContext(spark.sparkContext, 1)
        ssc.useClock(clock)
        rows = ssc.queueStream([[("a", 1)], [("b", 2)], []])
        typed = rows.toDF("name string, n int")
        typed.transform(lambda frame: frame.where("n > 0")).saveAsDelta(table)
        rows.map(lambda row: (row[0] * 2, row[1])).toDF("name string, n int").saveAsDelta(table)

        def fail_once(time: Any, frame: Any) -> None:
            if time.timestamp() == 2 and failing.pop():
                raise ValueError("on purpose")

        typed.foreachDF(fail_once)
        # Without types an interval without rows has no frame; it ends nothing.
        rows.toDF(["name", "n"]).foreachDF(lambda time, frame: empty.append(frame.count()))
        return ssc

    checkpoint = str(tmp_path / "checkpoint")
    ssc = StreamingContext.getOrCreate(checkpoint, declared)
    ssc.start()
    clock.advance(2)
    with pytest.raises(errors.DStreamFailed, match="on purpose"):
        ssc.awaitTermination(DEADLINE_S)
    failing.append(False)
    ssc = StreamingContext.getOrCreate(checkpoint, declared)
    ssc.start()
    clock.advance(1)
    engine = ssc._engine
    assert engine is not None
    until(ssc, lambda: engine.last_committed() == 2)
    ssc.stop(stopSparkContext=False)
    assert empty == [1, 1]

    app = Pipeline("reader")
    app.source("rows", delta(table))
    app.table(name="read")(lambda rows: rows)
    found = app.batch()["read"].orderBy("n", "name").collect()
    assert [tuple(row) for row in found] == [("a", 1), ("aa", 1), ("b", 2), ("bb", 2)]


def test_binary_records_have_one_length(ssc: StreamingContext, tmp_path: Path) -> None:
    seen: list[bytes] = []
    # The folder need not be there yet.
    folder = tmp_path / "later"
    ssc.binaryRecordsStream(str(folder), 3).foreachRDD(lambda rdd: seen.extend(rdd.collect()))
    ssc.start()
    (folder / ".new").write_bytes(b"abcdef")
    (folder / ".new").rename(folder / "new")
    clock_of(ssc).advance(1)
    until(ssc, lambda: seen)
    assert sorted(seen) == [b"abc", b"def"]
    (folder / "odd").write_bytes(b"abcd")
    clock_of(ssc).advance(1)
    with pytest.raises(errors.DStreamFailed, match="no multiple of 3"):
        ssc.awaitTermination(DEADLINE_S)
