"""One program through Spark's own DStreams and through Headwater's, by a clock that stands still.

A program is a function of a context and its inputs that returns named streams. What each of them
has in each batch is collected; the judge is `pyspark.streaming`, which still ships with Spark.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext

from headwater.dstream import SteppedClock, StreamingContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Batches = Sequence[Sequence[Any]]
Program = Callable[..., dict[str, Any]]
Results = dict[str, dict[int, Any]]
"""By stream, then by the seconds since the first batch was one interval away."""

DEADLINE_S = 600.0


class Collected:
    def __init__(self, streams: dict[str, Any], heartbeat: Any) -> None:
        self.results: Results = {name: {} for name in streams}
        self.beats = 0
        self._beat = threading.Condition()
        for name, stream in streams.items():
            stream.foreachRDD(self._take(name))
        heartbeat.foreachRDD(self._count)

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark pickles the functions of a program at every batch; nobody reads them back here.
        return str, ()

    def _take(self, name: str) -> Callable[[Any, Any], None]:
        def take(when: Any, rdd: Any) -> None:
            self.results[name][round(when.timestamp())] = in_order(rdd.collect())

        return take

    def _count(self, when: Any, rdd: Any) -> None:
        with self._beat:
            self.beats += 1
            self._beat.notify_all()

    def wait_for(self, beats: int, failure: Callable[[], Any]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        with self._beat:
            while self.beats < beats:
                assert failure() is None, failure()
                assert time.monotonic() < deadline, f"batch {beats} did not end"
                self._beat.wait(0.2)


def in_order(value: Any) -> Any:
    """Lists and groups as sorted lists, all the way down: partitions come in any order."""
    if isinstance(value, tuple):
        return tuple(in_order(part) for part in value)
    if isinstance(value, list) or (
        hasattr(value, "__iter__") and not isinstance(value, str | bytes)
    ):
        return sorted((in_order(part) for part in value), key=repr)
    return value


def by_spark(sc: SparkContext, folder: Path, program: Program, *inputs: Batches) -> Results:
    from pyspark.streaming import StreamingContext as Judge

    conf: Any = sc._jsc.sc().conf()  # type: ignore[union-attr]
    conf.set("spark.streaming.clock", "org.apache.spark.util.ManualClock")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        ssc = Judge(sc, 1)
    ssc.checkpoint(str(folder))
    queues = [ssc.queueStream([sc.parallelize(rows, 2) for rows in queue]) for queue in inputs]
    collected = Collected(program(ssc, *queues), queues[0])
    ssc.start()
    try:
        clock = ssc._jssc.ssc().scheduler().clock()
        with printed(collected.results):
            for beat in range(1, len(inputs[0]) + 1):
                clock.advance(1000)
                collected.wait_for(beat, lambda: None)
        collected.results["slice"] = sliced(queues[0])
    finally:
        ssc.stop(stopSparkContext=False)
    return collected.results


def sliced(stream: Any) -> dict[int, Any]:
    """The batches of three seconds, asked for with times in between."""
    begin, end = (dt.datetime.fromtimestamp(seconds) for seconds in (2.5, 4.5))
    return {0: [in_order(rdd.collect()) for rdd in stream.slice(begin, end)]}


@contextlib.contextmanager
def printed(results: Results) -> Iterator[None]:
    """Keeps what a program prints, with seconds for the times, which are of the machine's zone."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        yield
    text = out.getvalue()
    for second in range(1, 60):
        text = text.replace(f"Time: {dt.datetime.fromtimestamp(second)}", f"Time: {second}")
    results["pprint"] = {0: text}


def by_headwater(sc: SparkContext, folder: Path, program: Program, *inputs: Batches) -> Results:
    ssc = StreamingContext(sc, 1)
    clock = SteppedClock(0)
    ssc.useClock(clock)
    ssc.checkpoint(str(folder))
    queues = [ssc.queueStream([sc.parallelize(rows, 2) for rows in queue]) for queue in inputs]
    collected = Collected(program(ssc, *queues), queues[0])
    ssc.start()
    try:
        with printed(collected.results):
            for beat in range(1, len(inputs[0]) + 1):
                clock.advance(1)
                collected.wait_for(beat, lambda: ssc._engine and ssc._engine.failure)
        collected.results["slice"] = sliced(queues[0])
    finally:
        ssc.stop(stopSparkContext=False)
    return collected.results


Run = Callable[..., Results]


@pytest.fixture(scope="session")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What Spark's DStreams give for a program."""
    return partial(by_spark, spark.sparkContext, tmp_path_factory.mktemp("spark"))


@pytest.fixture(scope="session")
def given(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What Headwater's DStreams give for a program."""
    return partial(by_headwater, spark.sparkContext, tmp_path_factory.mktemp("ours"))
