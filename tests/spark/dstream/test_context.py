"""Wrong use is refused with a code; a context knows its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add, sub
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater import errors
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
    assert ssc.awaitTerminationOrTimeout(0.01) is False
    ssc.stop(stopSparkContext=False)
    assert StreamingContext.getActive() is None
    assert ssc.awaitTerminationOrTimeout(1) is True
    with pytest.raises(errors.ContextStopped):
        ssc.start()


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


def test_a_stream_becomes_a_delta_table(
    ssc: StreamingContext, spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    rows = ssc.queueStream([[("a", 1)], [("b", 2)]])
    frames = rows.toDF("name string, n int").transform(lambda frame: frame.where("n > 0"))
    frames.saveAsDelta(str(table))
    ssc.start()
    clock_of(ssc).advance(2)
    until(ssc, lambda: len(list((table / "_delta_log").glob("*.json"))) == 2)
    found = spark.read.format("delta").load(str(table)).orderBy("n").collect()
    assert [tuple(row) for row in found] == [("a", 1), ("b", 2)]


def test_binary_records_have_one_length(ssc: StreamingContext, tmp_path: Path) -> None:
    seen: list[bytes] = []
    ssc.binaryRecordsStream(str(tmp_path), 3).foreachRDD(lambda rdd: seen.extend(rdd.collect()))
    ssc.start()
    (tmp_path / ".new").write_bytes(b"abcdef")
    (tmp_path / ".new").rename(tmp_path / "new")
    clock_of(ssc).advance(1)
    until(ssc, lambda: seen)
    assert sorted(seen) == [b"abc", b"def"]
    (tmp_path / "odd").write_bytes(b"abcd")
    clock_of(ssc).advance(1)
    with pytest.raises(errors.DStreamFailed, match="no multiple of 3"):
        ssc.awaitTermination(DEADLINE_S)
