"""Generated rows and rows in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from headwater.connectors import delta, memory, parquet, queue, rate
from headwater.definitions import OutputMode

SCHEMA = "page string, at timestamp, tags array<string>"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ONE, TWO = [("a", NOON, ["x"]), ("b", NOON, None)], [{"page": "c", "at": NOON}]


def pages(desk: Any) -> list[str]:
    frame = parquet("out").read_batch(desk.spark, desk.reads())
    return sorted(row.page for row in frame.collect())


def test_every_list_of_a_queue_is_one_batch(desk: Any) -> None:
    frame = queue([ONE, TWO]).read_stream(desk.spark, desk.reads(SCHEMA))
    progress = desk.drain(frame, parquet("out"), desk.writes())
    assert [batch.numInputRows for batch in progress] == [2, 1]
    assert pages(desk) == ["a", "b", "c"]


def test_a_queue_read_as_batch_has_the_rows_of_the_stream(desk: Any) -> None:
    request = desk.reads(SCHEMA)
    source = queue([ONE, TWO])
    desk.drain(source.read_stream(desk.spark, request), parquet("out"), desk.writes())
    streamed = parquet("out").read_batch(desk.spark, desk.reads()).collect()
    batched = source.read_batch(desk.spark, request).collect()
    assert sorted(map(repr, streamed)) == sorted(map(repr, batched))


def test_lists_added_to_a_queue_are_new_batches_after_a_restart(desk: Any) -> None:
    for batches in ([ONE], [ONE], [ONE, TWO]):
        frame = queue(batches).read_stream(desk.spark, desk.reads(SCHEMA))
        progress = desk.drain(frame, parquet("out"), desk.writes())
    assert [batch.numInputRows for batch in progress] == [1]
    assert pages(desk) == ["a", "b", "c"]


def test_rows_that_a_definition_no_longer_holds_are_not_read(desk: Any) -> None:
    queue([ONE, TWO]).read_stream(desk.spark, desk.reads(SCHEMA))
    frame = memory(rows=ONE).read_stream(desk.spark, desk.reads(SCHEMA))
    desk.drain(frame, parquet("out"), desk.writes())
    assert pages(desk) == ["a", "b"]


def test_the_memory_sink_is_a_table_of_the_session(desk: Any) -> None:
    frame = queue([ONE, TWO]).read_stream(desk.spark, desk.reads(SCHEMA))
    desk.drain(frame, memory(), desk.writes("kept"))
    assert desk.spark.table("kept").count() == 3
    counts = frame.groupBy("page").count()
    desk.drain(counts, memory(), desk.writes("counted", OutputMode.COMPLETE))
    assert desk.spark.table("counted").count() == 3
    memory().write_batch(desk.spark.range(2), desk.writes("kept"))
    assert desk.spark.table("kept").count() == 2


def test_rows_per_batch_give_the_same_rows_as_stream_and_as_batch(desk: Any) -> None:
    source = rate(rows_per_batch=3, rows=6, start=NOON, advance="10 seconds")
    frame = source.read_stream(desk.spark, desk.reads())
    for _ in range(3):
        desk.drain(frame, parquet("out"), desk.writes())
    streamed = parquet("out").read_batch(desk.spark, desk.reads()).collect()
    batched = source.read_batch(desk.spark, desk.reads()).collect()
    assert len(batched) == 6
    assert sorted(streamed) == sorted(batched)


def test_rows_per_second_are_spread_over_the_second_in_a_batch(desk: Any) -> None:
    frame = rate(2, rows=3).read_batch(desk.spark, desk.reads())
    found = frame.selectExpr("value", "unix_millis(timestamp)").collect()
    assert [tuple(row) for row in found] == [(0, 0), (1, 500), (2, 1000)]


def test_two_pipelines_of_a_project_may_call_their_sources_alike(desk: Any) -> None:
    one, two = (replace(desk.reads("n int"), pipeline=name) for name in ("one", "two"))
    frame = queue([[(1,)]]).read_stream(desk.spark, one)
    queue([[(2,)]]).read_stream(desk.spark, two)
    desk.drain(frame, delta(), desk.writes())
    found = desk.spark.read.format("delta").load(desk.writes().managed).collect()
    assert [tuple(row) for row in found] == [(1,)]
