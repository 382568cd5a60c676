"""DStream programs with a real broker, and through a real kill."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import headwater as package
import headwater.dstream
from headwater.connectors.kafka import create_topic
from headwater.dstream import KafkaUtils, SteppedClock, StreamingContext, context
from headwater.dstream.kafka import OffsetRange, TopicAndPartition
from headwater.local.processes import wait_until
from headwater.settings import Connection

EXAMPLES = Path(__file__).parents[2] / "examples" / "dstream"
DEADLINE_S = 600.0


def until(condition: Callable[[], Any]) -> None:
    assert wait_until(lambda: bool(condition()), timeout_s=DEADLINE_S, interval_s=0.05)


class Topic:
    def __init__(self, connection: Connection, name: str, partitions: int = 1) -> None:
        self.servers = connection.require("bootstrap_servers")
        self.name = name
        self._producer = Producer({"bootstrap.servers": self.servers})
        create_topic(connection, name, partitions=partitions)

    def send(self, *records: tuple[str | None, str | None], partition: int = 0) -> None:
        for key, value in records:
            self._producer.produce(self.name, value, key, partition=partition)
        assert self._producer.flush(30) == 0


@pytest.fixture
def ssc(spark: SparkSession) -> Iterator[StreamingContext]:
    found = StreamingContext(spark.sparkContext, 1)
    found.useClock(SteppedClock(0))
    yield found
    found.stop(stopSparkContext=False)


def test_a_direct_stream_has_records_ranges_and_metadata(
    ssc: StreamingContext, kafka_connection: Connection
) -> None:
    topic = Topic(kafka_connection, f"t-{uuid.uuid4().hex[:8]}", partitions=2)
    topic.send(("a", "1"), (None, "2"), ("c", None))
    topic.send(("x", "9"), partition=1)
    pairs: list[Any] = []
    ranges: list[Any] = []
    handled: list[Any] = []
    stream = KafkaUtils.createDirectStream(
        ssc,
        [topic.name],
        {
            "metadata.broker.list": topic.servers,
            "auto.offset.reset": "smallest",
            "enable.auto.commit": "false",
        },
    )
    stream.foreachRDD(lambda rdd: pairs.extend(rdd.collect()))
    stream.foreachRDD(lambda rdd: ranges.append(rdd.offsetRanges()))
    KafkaUtils.createDirectStream(
        ssc,
        [topic.name],
        {"bootstrap.servers": topic.servers},
        fromOffsets={TopicAndPartition(topic.name, 0): 1},
        messageHandler=lambda one: (one.partition, one.offset, one.key, one.message),
    ).foreachRDD(lambda rdd: handled.extend(rdd.collect()))
    ssc.start()
    clock = ssc._clock
    assert isinstance(clock, SteppedClock)
    clock.advance(1)
    until(lambda: len(handled) == 2)
    # An interval without records has ranges too, without anything between their ends.
    clock.advance(1)
    until(lambda: len(ranges) == 2)
    topic.send(("b", "3"))
    clock.advance(1)
    until(lambda: len(handled) == 3)
    until(lambda: len(ranges) == 3)
    key = repr
    assert sorted(pairs, key=key) == sorted(
        [("a", "1"), (None, "2"), ("c", None), ("x", "9"), ("b", "3")], key=key
    )
    assert handled == [(0, 1, None, "2"), (0, 2, "c", None), (0, 3, "b", "3")]
    assert ranges[0] == [OffsetRange(topic.name, 0, 0, 3), OffsetRange(topic.name, 1, 0, 1)]
    assert [one.count() for one in ranges[1]] == [0, 0]
    assert ranges[2][0] == OffsetRange(topic.name, 0, 3, 4)


@pytest.mark.parametrize(
    ("program", "records", "expected"),
    [
        (
            "kafka_static_join.py",
            {"orders": [("7", "tea"), ("8", "ink"), ("9", "rope")]},
            ["Ada (7) ordered tea", "Grace (8) ordered ink"],
        ),
        (
            "impressions_visits.py",
            {"impressions": [("ad1", "seen")], "visits": [("ad1", "came"), ("ad2", "came")]},
            ["('ad1', ('seen', 'came'))"],
        ),
    ],
)
def test_the_kafka_programs_print_what_they_join(
    program: str,
    records: dict[str, list[tuple[str, str]]],
    expected: list[str],
    spark: SparkSession,
    kafka_connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (EXAMPLES / program).read_text()
    for name, rows in records.items():
        topic = Topic(kafka_connection, f"{name}-{uuid.uuid4().hex[:8]}")
        topic.send(*rows)
        text = text.replace(f'["{name}"]', f'["{topic.name}"]')
    monkeypatch.setenv("BROKERS", kafka_connection.require("bootstrap_servers"))
    monkeypatch.setattr(
        headwater.dstream, "SparkContext", lambda *_: spark.sparkContext, raising=False
    )
    clock = SteppedClock(0)
    monkeypatch.setattr(context, "WallClock", lambda: clock)
    thread = threading.Thread(target=exec, args=(text, {"__name__": "__main__"}), daemon=True)
    thread.start()
    until(lambda: StreamingContext.getActive() is not None)
    clock.advance(1)
    printed = [""]

    def is_printed() -> bool:
        printed[0] += capsys.readouterr().out
        return all(line in printed[0] for line in expected)

    until(is_printed)
    active = StreamingContext.getActive()
    assert active is not None
    active.stop(stopSparkContext=False)
    thread.join(DEADLINE_S)
    assert "rope" not in printed[0]


TOTALS = """\
import json, os, sys, time

from headwater.dstream import KafkaUtils, Receiver, SparkContext, StreamingContext


class Three(Receiver):
    # Its records are safe when store returns: stored once, whatever dies afterwards.
    def onStart(self):
        try:
            os.close(os.open("received", os.O_CREAT | os.O_EXCL))
            self.store(["own", "own", "own"])
        except FileExistsError:
            pass

    def onStop(self):
        pass


def kept(ssc, name):
    def keep(when, rdd):
        found = sorted(rdd.collect())
        with open(f"{name}.jsonl", "a") as file:
            print(json.dumps([when.timestamp(), ssc.batchId, found]), file=file)
        return found

    return keep


def setup():
    sc = SparkContext("local[4]", "Totals")
    sc.setLogLevel("ERROR")
    ssc = StreamingContext(sc, 1)
    port, servers, topic = sys.argv[1:]
    lines = ssc.socketTextStream("127.0.0.1", int(port))
    values = KafkaUtils.createDirectStream(
        ssc, [topic], {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
    ).map(lambda record: record[1])
    others = ssc.union(
        ssc.textFileStream("files"),
        values,
        ssc.queueStream([sc.parallelize(["queued"])] * 6),
        ssc.receiverStream(Three()),
    )
    words = lines.map(lambda word: (word, 1))
    totals = words.updateStateByKey(lambda new, total: (total or 0) + sum(new))
    rest = others.map(lambda word: (word, 1))
    both = words.union(rest).map(lambda pair: pair[0])
    keep_totals = kept(ssc, "totals")

    def keep(when, rdd):
        found = keep_totals(when, rdd)
        if sum(n for _, n in found) >= 20 and not os.path.exists("blocked"):
            open("blocked", "w").close()
            time.sleep(600)

    rest.updateStateByKey(lambda new, total: (total or 0) + sum(new)).foreachRDD(kept(ssc, "rest"))
    both.window(3).countByValue().foreachRDD(kept(ssc, "windows"))
    both.countByValue().foreachRDD(kept(ssc, "batches"))
    totals.foreachRDD(keep)
    return ssc


ssc = StreamingContext.getOrCreate("checkpoint", setup)
ssc.start()
ssc.awaitTermination()
"""


class Sender:
    """Sends words to whoever connects."""

    def __init__(self, folder: Path) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(DEADLINE_S)
        # The socket is the program's first input.
        self._stored = folder / "checkpoint/dstream/0/received/0/stored"
        self.port = str(self._server.getsockname()[1])
        self.sent = 0
        self._open = [self._server]

    def close(self) -> None:
        for one in self._open:
            one.close()

    def send(self, words: list[str]) -> None:
        """Returns when the words are stored."""
        connection, _ = self._server.accept()
        self._open.append(connection)
        connection.sendall("".join(f"{word}\n" for word in words).encode())
        self.sent += len(words)
        until(lambda: self.stored() == self.sent)

    def stored(self) -> int:
        names = os.listdir(self._stored) if self._stored.exists() else []
        counts = [re.search(r"^[^.].*-(\d+)\.parquet$", name) for name in names]
        return sum(int(found[1]) for found in counts if found)


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Sender]:
    found = Sender(tmp_path)
    yield found
    found.close()


class Totals:
    """The program in a folder, started in one way or another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "totals.py").write_text(TOTALS)
        self._environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])}

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / "errors").open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, *command],
                cwd=self._folder,
                env=self._environment,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )

    def headwater(self, *arguments: str) -> str:
        command = [sys.executable, *HEADWATER, *arguments]
        done = subprocess.run(
            command, cwd=self._folder, env=self._environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def written(self, name: str = "totals") -> list[Any]:
        path = self._folder / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def until_each(self, count: int) -> None:
        until(lambda: self.written()[-1][2] == [["w0", count], ["w1", count], ["w2", count]])


HEADWATER = ("-m", "headwater.cli.main")


def add_file(folder: Path, name: str, words: list[str]) -> None:
    draft = folder / f".{name}"
    draft.write_text("".join(f"{word}\n" for word in words))
    draft.rename(folder / name)


def test_a_killed_program_goes_on_with_the_same_batch(
    tmp_path: Path, sender: Sender, kafka_connection: Connection
) -> None:
    """Every input is read once, and windows and state go on, through two kills."""
    program = Totals(tmp_path)
    files = tmp_path / "files"
    files.mkdir()
    topic = Topic(kafka_connection, f"t-{uuid.uuid4().hex[:8]}")
    topic.send((None, "kafka"))
    arguments = ("totals.py", sender.port, topic.servers, topic.name)
    first = program.start(*arguments)
    try:
        until(lambda: program.written())
        add_file(files, "one", ["file", "file"])
        topic.send((None, "kafka"), (None, "kafka"))
        sender.send([f"w{n % 3}" for n in range(30)])
        until(lambda: (tmp_path / "blocked").exists())
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(120)
    cut = program.written()[-1]
    add_file(files, "two", ["file"])
    topic.send((None, "kafka"))

    # The rest under supervision: found by `status`, started again when its process is killed.
    run = ("dstream", "run", "--supervise", *arguments)
    second = program.start(*HEADWATER, *run)
    try:
        sender.send([f"w{n % 3}" for n in range(12)])
        program.until_each(14)
        (found,) = json.loads(program.headwater("status", "--json"))
        assert (found["pipeline"], found["state"]) == ("totals", "running")
        assert found["tables"][0]["last_batch"] >= cut[1]
        os.kill(found["pid"], signal.SIGKILL)
        sender.send(["w0", "w1", "w2"])
        program.until_each(15)
        expected = [["file", 3], ["kafka", 4], ["own", 3], ["queued", 6]]
        until(lambda: program.written("rest")[-1][2] == expected)
        said = program.headwater("stop")
        assert "totals: after batch" in said
        assert "next: headwater dstream run totals.py" in said
        assert second.wait(DEADLINE_S) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(second.pid, signal.SIGKILL)
        second.wait(120)
    batches = [batch for _, batch, _ in program.written()]
    assert batches.count(cut[1]) == 2
    assert [row for row in program.written() if row[1] == cut[1]] == [cut, cut]
    times = sorted({time for time, _, _ in program.written()})
    assert {b - a for a, b in pairwise(times)} == {1.0}
    # A batch that ran again had the same records, and windows are made of what batches had.
    for name in ("batches", "windows", "rest"):
        assert len({json.dumps(row) for row in program.written(name)}) == len(times)
    counts = {time: dict(map(tuple, found)) for time, _, found in program.written("batches")}
    for time, _, found in program.written("windows"):
        last = [counts.get(time - age, {}) for age in range(3)]
        assert dict(map(tuple, found)) == dict(sum(map(Counter, last), Counter()))
