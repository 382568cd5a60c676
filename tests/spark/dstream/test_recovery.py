"""A program that fails in the middle of a batch goes on as if nothing had happened."""

from __future__ import annotations

import os
from collections.abc import Callable
from operator import add, sub
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.dstream import Receiver, SteppedClock, StreamingContext
from headwater.errors import DStreamFailed, DStreamProgramChanged
from headwater.local.processes import wait_until

DEADLINE_S = 300.0
BATCHES = 15
FAILS_AT = 14
"""State is saved every other batch: the one before is computed again."""


def latest(new: list[int], old: int | None) -> int:
    return (old or 0) + sum(new)


class Program:
    """Words from files through a window, one with an inverse, and state; all kept in `seen`."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._sc = spark.sparkContext
        self._folder = folder
        self._checkpoint = str(folder / "checkpoint")
        self.input = folder / "in"
        self.input.mkdir(parents=True, exist_ok=True)
        self.seen: dict[tuple[str, int], Any] = {}
        self.batch_ids: list[int] = []
        self.fails_at: int | None = None
        self.extra: Callable[[Any], Any] | None = None

    def start(self, now_s: int) -> None:
        self.clock = SteppedClock(now_s * 1000)
        self.ssc = StreamingContext.getOrCreate(self._checkpoint, self._declare)
        self.ssc.start()

    def _declare(self) -> StreamingContext:
        ssc = StreamingContext(self._sc, 1)
        ssc.useClock(self.clock)
        pairs = ssc.textFileStream(str(self.input)).map(lambda word: (word, 1))
        state = pairs.updateStateByKey(latest).checkpoint(2)
        often = pairs.reduceByKey(add).updateStateByKey(latest).checkpoint(1)
        # Saved before it is reduced: each key is in two partitions.
        unreduced = pairs.union(pairs).checkpoint(2)
        streams = {
            "window": pairs.window(3).reduceByKey(add),
            "inverse": pairs.reduceByKeyAndWindow(add, sub, 5, 1).checkpoint(2),
            "state": state,
            "window of state": state.window(4),
            "state, seen now and then": state.map(lambda pair: pair).window(1, 3),
            "state of state": often.updateStateByKey(latest).checkpoint(2),
            "saved before it is reduced": unreduced.reduceByKey(add, 2).window(3),
        }
        if self.extra is not None:
            streams["extra"] = self.extra(pairs)
        for name, stream in streams.items():
            stream.foreachRDD(self._keep(name, ssc))
        return ssc

    def _keep(self, name: str, ssc: StreamingContext) -> Callable[[Any, Any], None]:
        def keep(time: Any, rdd: Any) -> None:
            second = round(time.timestamp())
            if name == "inverse" and second == self.fails_at:
                raise ValueError("on purpose")
            self.batch_ids.append(ssc.batchId)
            self.seen[name, second] = sorted(rdd.collect())

        return keep

    def feed(self, number: int) -> None:
        """The file of a batch, with the time of its interval."""
        path = self.input / f"{number}.txt"
        words = ["a", "b", "c"][: (number + 2) % 4] + ["d"] * (number % 2)
        path.write_text("".join(f"{word}\n" for word in words))
        os.utime(path, (number, number))

    def run(self, numbers: range) -> None:
        for number in numbers:
            self.feed(number)
            self.clock.advance(1)
            self._await(number * 1000)
            if self._engine.failure is not None:
                return

    @property
    def _engine(self) -> Any:
        assert self.ssc._engine is not None
        return self.ssc._engine

    def _await(self, time_ms: int) -> None:
        def is_over() -> bool:
            return self._engine._done_ms >= time_ms or self._engine.failure is not None

        assert wait_until(is_over, timeout_s=DEADLINE_S, interval_s=0.02)

    def forget_old_offsets(self) -> None:
        """As Spark does after hundreds of batches: what lies before is asked for no more."""
        reach = max(node.reach_ms for node in self.ssc._program.nodes) // 1000
        last = FAILS_AT - 1
        assert last - reach > 0
        for number in range(last - reach):
            (Path(self._checkpoint) / f"dstream/0/query/offsets/{number}").unlink()

    def stop(self) -> None:
        self.ssc.stop(stopSparkContext=False)


def test_a_failed_batch_is_run_again_and_everything_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    whole = Program(spark, tmp_path / "whole")
    whole.start(0)
    whole.run(range(1, BATCHES + 1))
    whole.stop()

    cut = Program(spark, tmp_path / "cut")
    cut.fails_at = FAILS_AT
    cut.start(0)
    cut.run(range(1, BATCHES + 1))
    with pytest.raises(DStreamFailed, match="on purpose") as failure:
        cut.ssc.awaitTermination()
    assert failure.value.where is not None
    assert failure.value.where.file == __file__
    assert ("window", FAILS_AT) in cut.seen
    assert ("inverse", FAILS_AT) not in cut.seen

    cut.fails_at = None
    cut.forget_old_offsets()
    cut.start(FAILS_AT - 1)
    cut.run(range(FAILS_AT, BATCHES + 1))
    cut.stop()
    assert cut.seen == whole.seen
    # Seen every third second only; the window ran once more, then all of them.
    due = sum((name, FAILS_AT) in cut.seen for name in {name for name, _ in cut.seen})
    assert cut.batch_ids.count(FAILS_AT - 1) == due + 1

    changed = Program(spark, tmp_path / "cut")
    changed.extra = lambda pairs: pairs.count()
    with pytest.raises(DStreamProgramChanged):
        changed.start(BATCHES)


def test_a_program_without_its_saved_state_would_be_seen(
    spark: SparkSession, tmp_path: Path
) -> None:
    program = Program(spark, tmp_path)
    program.start(0)
    program.run(range(1, 3))
    program.stop()
    fresh = Program(spark, tmp_path)
    fresh._checkpoint = str(tmp_path / "another")
    fresh.start(2)
    fresh.run(range(3, 4))
    fresh.stop()
    assert dict(fresh.seen["state", 3])["a"] == 1


def test_a_batch_is_never_run_without_what_its_receiver_had_stored(
    spark: SparkSession, tmp_path: Path
) -> None:
    class Once(Receiver):
        def onStart(self) -> None:
            self.store([1, 2])

        def onStop(self) -> None:
            pass

    seen: list[list[int]] = []
    is_failing = True

    def keep(rdd: Any) -> None:
        found = sorted(rdd.collect())
        if is_failing and found:
            raise ValueError("on purpose")
        seen.append(found)

    def declare() -> StreamingContext:
        ssc = StreamingContext(spark.sparkContext, 1)
        ssc.useClock(clock)
        ssc.receiverStream(Once()).foreachRDD(keep)
        return ssc

    clock = SteppedClock(0)
    ssc = StreamingContext.getOrCreate(str(tmp_path), declare)
    ssc.start()
    [receiver] = ssc._receivers
    folder = Path(receiver.folder)
    assert wait_until(lambda: bool([*folder.glob("[0-9]*.parquet")]), timeout_s=DEADLINE_S)
    clock.advance(1)
    with pytest.raises(DStreamFailed, match="on purpose"):
        ssc.awaitTermination(DEADLINE_S)

    is_failing = False
    stored = min(folder.glob("[0-9]*.parquet"))
    stored.unlink()
    # The batch is told as failed, not run as if nothing had been received.
    ssc = StreamingContext.getOrCreate(str(tmp_path), declare)
    ssc.start()
    with pytest.raises(DStreamFailed, match=stored.name):
        ssc.awaitTermination(DEADLINE_S)
    assert seen == []
