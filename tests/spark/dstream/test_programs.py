"""The programs of examples/dstream, run from their text by a clock that stands still."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater.dstream
from headwater.dstream import SteppedClock, StreamingContext, context
from headwater.local.processes import wait_until

EXAMPLES = Path(__file__).parents[3] / "examples"
DEADLINE_S = 300.0


class Running:
    """A program in a thread of its own, and what it printed, batch by batch."""

    def __init__(self, text: str, clock: SteppedClock, capsys: pytest.CaptureFixture[str]) -> None:
        self._clock = clock
        self._capsys = capsys
        self._printed = ""
        self._failure: BaseException | None = None
        self._text = text
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._until(lambda: StreamingContext.getActive() is not None)
        self.ssc = StreamingContext.getActive()
        assert self.ssc is not None

    def _run(self) -> None:
        try:
            exec(compile(self._text, "program.py", "exec"), {"__name__": "__main__"})
        except BaseException as problem:
            self._failure = problem

    def _until(self, condition: Callable[[], Any]) -> None:
        assert wait_until(
            lambda: bool(self._failure or condition()), timeout_s=DEADLINE_S, interval_s=0.02
        )
        if self._failure:
            raise self._failure

    def batch(self, seconds: float) -> list[str]:
        """The lines that the next batch prints below its time."""
        before = self._text_so_far().count("Time: ")
        self._clock.advance(seconds)
        self._until(lambda: self._text_so_far().count("Time: ") > before)
        self._until(lambda: self._text_so_far().endswith("\n\n"))
        last = self._text_so_far().rsplit("Time: ", 1)[1]
        return [line for line in last.splitlines()[2:] if line]

    def _text_so_far(self) -> str:
        self._printed += self._capsys.readouterr().out
        return self._printed

    def stop(self) -> None:
        if self.ssc is not None:
            self.ssc.stop(stopSparkContext=False)
        self._thread.join(DEADLINE_S)


@pytest.fixture
def start(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., Running]]:
    """Starts a program of the examples in an empty folder beside the other examples."""
    started: list[Running] = []
    folder = tmp_path / "examples"
    (folder / "dstream").mkdir(parents=True)
    (folder / "web_log").symlink_to(EXAMPLES / "web_log")
    monkeypatch.chdir(folder / "dstream")
    clock = SteppedClock(0)
    monkeypatch.setattr(context, "WallClock", lambda: clock)
    monkeypatch.setattr(
        headwater.dstream, "SparkContext", lambda *_: spark.sparkContext, raising=False
    )

    def begin(name: str, **replacements: str) -> Running:
        text = (EXAMPLES / "dstream" / name).read_text()
        for old, new in replacements.items():
            text = text.replace(old, new)
        started.append(Running(text, clock, capsys))
        return started[-1]

    yield begin
    for program in started:
        program.stop()


class Lines:
    """A server that sends lines to the one program that connects."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = str(self._server.getsockname()[1])
        self._connection: socket.socket | None = None

    def send(self, program: Running, lines: list[str]) -> None:
        """Returns when the program has stored the lines."""
        if self._connection is None:
            self._server.settimeout(DEADLINE_S)
            self._connection, _ = self._server.accept()
        [receiver] = program.ssc._receivers
        before = self._stored(receiver.folder)
        self._connection.sendall("".join(f"{line}\n" for line in lines).encode())
        program._until(lambda: self._stored(receiver.folder) == before + len(lines))

    def _stored(self, folder: str) -> int:
        counts = [re.search(r"^[^.].*-(\d+)\.parquet$", name) for name in os.listdir(folder)]
        return sum(int(found[1]) for found in counts if found)

    def close(self) -> None:
        for one in (self._connection, self._server):
            if one is not None:
                one.close()


@pytest.fixture
def lines() -> Iterator[Lines]:
    server = Lines()
    yield server
    server.close()


def requests(until: int) -> list[list[str]]:
    """The lines of the web log, by intervals of 10 seconds."""
    found: list[list[str]] = [[] for _ in range(until)]
    for line in (EXAMPLES / "web_log/logs/1200.log").read_text().splitlines():
        second = int(line[14:16]) * 60 + int(line[17:19])
        if second // 10 < until:
            found[second // 10].append(line)
    return found


INTERVALS = 4


def structured(example: Any, view: str) -> list[list[tuple[Any, ...]]]:
    """What the structured form of the same program gives for each window."""
    app = example("web_log")
    rows = app.pipeline.batch()[view].orderBy("until", "rank").collect()
    ends = sorted({row["until"] for row in rows})[:INTERVALS]
    return [[tuple(row) for row in rows if row["until"] == end] for end in ends]


def test_the_busiest_addresses_are_those_of_the_structured_form(
    start: Callable[..., Running], lines: Lines, example: Any
) -> None:
    expected = [
        [f"('{ip}', {count})" for _, _, ip, count in window]
        for window in structured(example, "top_ips")
    ]
    program = start("top_ips.py", **{"9999": lines.port, "localhost": "127.0.0.1"})
    for interval, window in zip(requests(INTERVALS), expected, strict=True):
        lines.send(program, interval)
        assert program.batch(10) == window


def test_countries_from_a_file_are_those_of_the_structured_form(
    start: Callable[..., Running], lines: Lines, example: Any
) -> None:
    expected = [
        sorted(f"({ip!r}, ({count}, {country!r}))" for _, _, ip, country, count in window)
        for window in structured(example, "top_countries")
    ]
    countries = str(EXAMPLES / "web_log")
    program = start(
        "top_countries.py",
        **{"9999": lines.port, "localhost": "127.0.0.1", "../web_log": countries},
    )
    for interval, window in zip(requests(INTERVALS), expected, strict=True):
        lines.send(program, interval)
        assert sorted(program.batch(10)) == window
    assert "Japan" in str(expected)


def test_the_total_counts_every_request_once_and_as_taught_once_per_window(
    start: Callable[..., Running], lines: Lines, example: Any
) -> None:
    windows = structured(example, "top_totals")
    expected = [sorted(f"('{r[2]}', ({r[4]}, {r[5]}))" for r in window) for window in windows]
    program = start("top_totals.py", **{"9999": lines.port, "localhost": "127.0.0.1"})
    for interval, window in zip(requests(INTERVALS), expected, strict=True):
        lines.send(program, interval)
        assert sorted(program.batch(10)) == window
    program.stop()

    other = Lines()
    taught = start("top_totals_as_taught.py", **{"9999": other.port, "localhost": "127.0.0.1"})
    counted: dict[str, int] = {}
    intervals = requests(INTERVALS)
    for number, interval in enumerate(intervals):
        for line in [line for part in intervals[max(0, number - 2) : number + 1] for line in part]:
            ip = line.split(" ")[1]
            counted[ip] = counted.get(ip, 0) + 1
        other.send(taught, interval)
        printed = taught.batch(10)
        assert printed
        for line in printed:
            ip, (_, total) = eval(line)
            assert total == counted[ip]
    other.close()
    sent = [line for part in intervals for line in part if " 192.0.2.91 " in line]
    assert counted["192.0.2.91"] > len(sent)


def test_words_of_a_socket_are_counted(start: Callable[..., Running], lines: Lines) -> None:
    program = start("word_count_socket.py", **{"9999": lines.port, "localhost": "127.0.0.1"})
    lines.send(program, ["to be or", "not to be"])
    assert sorted(program.batch(1)) == ["('be', 2)", "('not', 1)", "('or', 1)", "('to', 2)"]
    assert program.batch(1) == []


def test_words_of_new_files_are_counted(start: Callable[..., Running]) -> None:
    books = Path("books")
    books.mkdir()
    (books / "old").write_text("before the start")
    os.utime(books / "old", (0, 0))
    program = start("word_count_files.py")
    (books / ".new").write_text("to be or not to be\n")
    (books / ".new").rename(books / "new")
    assert sorted(program.batch(1)) == ["('be', 2)", "('not', 1)", "('or', 1)", "('to', 2)"]


def test_words_of_a_queue_are_counted(start: Callable[..., Running]) -> None:
    program = start("word_count_queue.py")
    assert sorted(program.batch(1)) == ["('be', 2)", "('not', 1)", "('or', 1)", "('to', 2)"]
    assert len(program.batch(1)) == 4
    assert program.batch(1) == []


def test_one_function_filters_a_batch_and_a_stream(
    start: Callable[..., Running], spark: SparkSession
) -> None:
    logs = Path("logs").absolute()
    logs.mkdir()
    program = start("filter_errors.py", **{"sys.argv[1:]": "[]"})
    (logs / "a.log").write_text("INFO fine\nERROR disk full\n")
    assert program.batch(1) == ["ERROR disk full"]
    namespace: dict[str, Any] = {"__name__": "filter_errors"}
    exec((EXAMPLES / "dstream/filter_errors.py").read_text(), namespace)
    found = namespace["filter_errors"](spark.sparkContext.textFile(str(logs))).collect()
    assert found == ["ERROR disk full"]
