"""Sinks that are functions or the terminal, and sources and sinks that users write."""

from __future__ import annotations

import socket as sockets
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)

from headwater.connectors import console, custom, foreach, foreach_batch, memory, parquet, socket
from headwater.definitions import OutputMode

PAIRS = memory(rows=[("a", 1), ("b", 2)])


def pairs(desk: Any) -> Any:
    return PAIRS.read_stream(desk.spark, desk.reads("name string, n int"))


def test_the_console_prints_batches_as_spark_does(
    desk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.drain(pairs(desk).coalesce(1), console(rows=1), desk.writes(mode=OutputMode.UPDATE))
    rule = "-" * 43
    table = "+----+---+\n|name|  n|\n+----+---+\n|   a|  1|\n+----+---+\nonly showing top 1 row\n"
    assert capsys.readouterr().out == f"{rule}\nBatch: 0\n{rule}\n{table}"


def test_a_batch_function_gets_the_frame_and_the_number(desk: Any) -> None:
    seen: list[tuple[int, int]] = []
    sink = foreach_batch(lambda frame, batch: seen.append((batch, frame.count())))
    desk.drain(pairs(desk), sink, desk.writes())
    assert seen == [(0, 2)]


def test_a_batch_function_gets_the_last_row_of_every_key(desk: Any) -> None:
    seen: list[list[tuple[Any, ...]]] = []
    sink = foreach_batch(lambda frame, batch: seen.append([tuple(row) for row in frame.collect()]))
    source = memory(rows=[("a", 1), ("a", 3), ("a", 2)])
    rows = source.read_stream(desk.spark, desk.reads("name string, n int"))
    by_name = {"mode": OutputMode.UPDATE, "key": ("name",), "order_by": ("n",)}
    desk.drain(rows, sink, replace(desk.writes(), **by_name))
    assert seen == [[("a", 3)]]


def test_what_a_batch_function_raises_surfaces_with_its_line(desk: Any) -> None:
    def fails(frame: Any, batch: int) -> None:
        raise ValueError(f"mine in {batch}")

    with pytest.raises(StreamingQueryException) as caught:
        desk.drain(pairs(desk), foreach_batch(fails), desk.writes())
    assert "ValueError: mine in 0" in str(caught.value)
    assert f'File "{__file__}"' in str(caught.value)


def test_a_row_function_is_called_per_row(desk: Any) -> None:
    out = str(desk.base)

    def keep(row: Any) -> None:
        Path(out, row.name).write_text(str(row.n))

    desk.drain(pairs(desk), foreach(keep), desk.writes())
    assert Path(out, "a").read_text() == "1"
    assert Path(out, "b").read_text() == "2"


def test_lines_of_a_socket_arrive_as_rows(desk: Any) -> None:
    with sockets.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ended = threading.Event()
        thread = threading.Thread(target=serve, args=(server, ended))
        thread.start()
        source = socket("127.0.0.1", port)
        source.check_readable(desk.reads())
        writer = memory().write_stream(
            source.read_stream(desk.spark, desk.reads()), desk.writes("lines")
        )
        query = writer.option("checkpointLocation", str(desk.checkpoint("lines"))).start()
        while not desk.spark.table("lines").count() and query.isActive:
            query.processAllAvailable()
        query.stop()
        ended.set()
        thread.join()
    assert [row.value for row in desk.spark.table("lines").collect()] == ["a", "b"]


def serve(server: sockets.socket, ended: threading.Event) -> None:
    """Sends two lines to everyone who connects: first the check, then the query."""
    server.settimeout(0.1)
    guests = []
    while not ended.is_set():
        try:
            guest, _ = server.accept()
        except TimeoutError:
            continue
        guest.sendall(b"a\nb\n")
        guests.append(guest)
    for guest in guests:
        guest.close()


class Countdown(DataSource):
    """The whole of a user's own system: numbers below a limit, and a folder that takes rows."""

    @classmethod
    def name(cls) -> str:
        return "countdown"

    def schema(self) -> str:
        return "n int"

    def reader(self, schema: Any) -> DataSourceReader:
        return Numbers(int(self.options["limit"]))

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802
        return NumbersStream(int(self.options["limit"]))

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return Folder(self.options["path"])

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return Folder(self.options["path"])


class Numbers(DataSourceReader):
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        return iter([(n,) for n in range(self.limit)])


class NumbersStream(SimpleDataSourceStreamReader):
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"n": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        return self.readBetweenOffsets(start, {"n": self.limit}), {"n": self.limit}

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int]]:
        return iter([(n,) for n in range(start["n"], end["n"])])


class Folder(DataSourceStreamWriter, DataSourceWriter):
    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for row in iterator:
            Path(self.path, str(row.n)).touch()
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int = 0) -> None:  # noqa: N803
        Path(self.path, f"batch {batchId}").touch()


def test_a_source_that_a_user_wrote_reads_alike_as_stream_and_as_batch(desk: Any) -> None:
    source = custom(Countdown, options={"limit": 3})
    desk.drain(source.read_stream(desk.spark, desk.reads()), parquet("out"), desk.writes())
    streamed = parquet("out").read_batch(desk.spark, desk.reads()).collect()
    batched = source.read_batch(desk.spark, desk.reads()).collect()
    assert sorted(streamed) == sorted(batched) == [(0,), (1,), (2,)]


def test_a_sink_that_a_user_wrote_takes_stream_and_batch(desk: Any) -> None:
    source = custom(Countdown, options={"limit": 2})
    for name in ("stream", "batch"):
        (desk.base / name).mkdir()
    sink = custom(Countdown, str(desk.base / "stream"))
    desk.drain(source.read_stream(desk.spark, desk.reads()), sink, desk.writes())
    assert {file.name for file in (desk.base / "stream").iterdir()} == {"0", "1", "batch 0"}
    sink = custom(Countdown, str(desk.base / "batch"))
    sink.write_batch(source.read_batch(desk.spark, desk.reads()), desk.writes())
    assert {"0", "1"} <= {file.name for file in (desk.base / "batch").iterdir()}
