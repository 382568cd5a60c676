"""Delta tables: every mode, read back, prepared and replaced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from headwater.connectors import delta, queue
from headwater.definitions import OutputMode
from headwater.errors import InvalidConnector
from headwater.ledger import compaction, transactions

CLICKS = queue(
    [
        [("facebook", "clicked"), ("youtube", "clicked"), ("linkedin", "viewed")],
        [("facebook", "viewed"), ("linkedin", "viewed")],
    ]
)


def clicks(desk: Any) -> Any:
    return CLICKS.read_stream(desk.spark, desk.reads("page string, action string"))


def content(desk: Any, request: Any) -> list[tuple[Any, ...]]:
    frame = delta().read_batch(desk.spark, desk.reads(managed=request.managed))
    return sorted(tuple(row) for row in frame.collect())


def test_complete_mode_keeps_the_whole_result(desk: Any) -> None:
    request = desk.writes(mode=OutputMode.COMPLETE)
    counts = clicks(desk).groupBy("action").count()
    assert len(desk.drain(counts, delta(), request)) == 2
    assert content(desk, request) == [("clicked", 2), ("viewed", 3)]


def test_appended_rows_are_read_as_a_stream_by_another_query(desk: Any) -> None:
    first, second = desk.writes("first"), desk.writes("second")
    delta().prepare(desk.spark, "page string, action string", first)
    reader = delta().read_stream(desk.spark, desk.reads(managed=first.managed))
    desk.drain(clicks(desk), delta(), first)
    desk.drain(reader, delta(), second)
    assert len(content(desk, second)) == 5
    assert content(desk, second) == content(desk, first)


def test_update_mode_merges_by_key_and_a_repeated_batch_changes_nothing(desk: Any) -> None:
    request = desk.writes(mode=OutputMode.UPDATE, key=("action",))
    delta().prepare(desk.spark, "action string, count bigint NOT NULL", request)
    counts = clicks(desk).groupBy("action").count()
    assert len(desk.drain(counts, delta(), request)) == 2
    assert content(desk, request) == [("clicked", 2), ("viewed", 3)]
    for commit in (desk.checkpoint("result") / "commits").iterdir():
        if commit.name.lstrip(".").startswith("1"):
            commit.unlink()
    assert len(desk.drain(counts, delta(), request)) == 1
    assert content(desk, request) == [("clicked", 2), ("viewed", 3)]


def test_two_rows_of_one_key_in_a_batch_are_refused(desk: Any) -> None:
    request = desk.writes(mode=OutputMode.UPDATE, key=("action",))
    delta().prepare(desk.spark, "page string, action string", request)
    seed = desk.spark.createDataFrame([("x", "clicked")], "page string, action string")
    seed.write.format("delta").mode("append").save(request.managed)
    with pytest.raises(StreamingQueryException, match="KEY_NOT_UNIQUE"):
        desk.drain(clicks(desk), delta(), request)
    assert content(desk, request) == [("x", "clicked")]


def test_a_prepared_table_is_empty_and_stays_when_prepared_again(desk: Any) -> None:
    request = desk.writes()
    delta().prepare(desk.spark, "id bigint", request)
    assert not delta().holds_rows(desk.spark, request)
    desk.spark.range(3).write.format("delta").mode("append").save(request.managed)
    delta().prepare(desk.spark, "id bigint", request)
    assert delta().holds_rows(desk.spark, request)
    assert not delta().holds_rows(desk.spark, desk.writes("other"))


def test_a_batch_replaces_rows_and_columns_in_one_commit(desk: Any) -> None:
    sink = delta("out")
    sink.write_batch(desk.spark.range(5), desk.writes())
    sink.write_batch(desk.spark.range(2).selectExpr("id", "'x' AS name"), desk.writes())
    frame = sink.read_batch(desk.spark, desk.reads())
    assert sorted(tuple(row) for row in frame.collect()) == [(0, "x"), (1, "x")]
    commits = list((desk.base / "out" / "_delta_log").glob("*.json"))
    assert len(commits) == 2


def test_an_input_without_a_path_is_refused(desk: Any) -> None:
    with pytest.raises(InvalidConnector, match="without a path"):
        delta().read_batch(desk.spark, desk.reads())


def rows_of(desk: Any, *rows: tuple[Any, ...]) -> Any:
    return desk.spark.createDataFrame(rows, "device string, at long, celsius double")


def test_a_merge_that_comes_again_after_a_later_one_changes_nothing(desk: Any) -> None:
    """A driver that stood still while another took over, or a correction before a replay."""
    request = desk.writes(mode=OutputMode.UPDATE, key=("device",))
    delta().prepare(desk.spark, "device string, at long, celsius double", request)

    def write(celsius: float, *, query: str, batch: int) -> list[tuple[Any, ...]]:
        frame = rows_of(desk, ("a", 1, celsius))
        delta().write_increment(frame, request, query=query, batch=batch)
        return content(desk, request)

    assert write(1.0, query="mine", batch=0) == [("a", 1, 1.0)]
    assert write(2.0, query="mine", batch=1) == [("a", 1, 2.0)]
    assert write(1.0, query="mine", batch=0) == [("a", 1, 2.0)]
    assert write(3.0, query="another", batch=0) == [("a", 1, 3.0)]
    delta().merge(rows_of(desk, ("a", 1, 4.0)), request)
    assert write(2.0, query="mine", batch=1) == [("a", 1, 4.0)]


def test_an_older_row_of_a_later_batch_replaces_nothing(desk: Any) -> None:
    request = desk.writes(mode=OutputMode.UPDATE, key=("device",), order_by=("at",))
    delta().prepare(desk.spark, "device string, at long, celsius double", request)
    steps = [(5, 1.0, 1.0), (4, 2.0, 1.0), (5, 3.0, 3.0), (None, 4.0, 3.0), (6, 5.0, 5.0)]
    for batch, (at, celsius, expected) in enumerate(steps):
        frame = rows_of(desk, ("a", at, celsius))
        delta().write_increment(frame, request, query="mine", batch=batch)
        assert content(desk, request)[0][2] == expected


def described(desk: Any, path: str) -> Any:
    return desk.spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()


DEFAULTS = {
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
    "delta.autoOptimize.autoCompact": "true",
}


@pytest.mark.parametrize("how", ["stream", "prepared", "batch", "increment"])
def test_a_new_table_has_a_retention_and_puts_small_files_together(how: str, desk: Any) -> None:
    long = delta(options={"delta.logRetentionDuration": "interval 30 days"})
    for sink, name in ((delta(), "usual"), (long, "other")):
        request = desk.writes(name)
        if sink.prepares or how == "prepared":
            sink.prepare(desk.spark, "page string, action string", request)
        if how == "stream":
            desk.drain(clicks(desk), sink, request)
        elif how == "batch":
            sink.write_batch(desk.spark.range(1), request)
        elif how == "increment":
            frame = desk.spark.createDataFrame([("x", "y")], "page string, action string")
            sink.write_increment(frame, request, query="q", batch=0)
    usual, other = (described(desk, desk.writes(n).managed).properties for n in ("usual", "other"))
    assert usual == DEFAULTS
    assert other == DEFAULTS | {"delta.logRetentionDuration": "interval 30 days"}


@pytest.fixture
def few(desk: Any) -> Iterator[int]:
    """Small files are put together when there are this many."""
    key, number = "spark.databricks.delta.autoCompact.minNumFiles", 5
    before = desk.spark.conf.get(key)
    desk.spark.conf.set(key, str(number))
    yield number
    desk.spark.conf.set(key, before)


@pytest.mark.parametrize("are_few", [False, True], ids=["by Spark", "by this process"])
def test_small_appends_end_in_few_files_and_every_row_is_read_once(
    are_few: bool, desk: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "SMALL_FILES", few)
    path, down = desk.writes("first").managed, desk.writes("second")
    append = transactions.append_few if are_few else transactions.append
    batches = 4 * few
    for batch in range(batches):
        append(desk.spark.range(batch, batch + 1), path, application="q", version=batch)
        if batch % few == 2:
            reader = delta().read_stream(desk.spark, desk.reads(managed=path))
            desk.drain(reader, delta(), down)
    desk.drain(delta().read_stream(desk.spark, desk.reads(managed=path)), delta(), down)
    assert described(desk, path).numFiles < 2 * few
    assert len(list(Path(path).glob("*.parquet"))) > batches
    assert append(desk.spark.range(1), path, application="q", version=batches - 1) == 0
    assert content(desk, down) == [(n,) for n in range(batches)]


@pytest.mark.parametrize("is_wanted", [True, False])
def test_files_of_earlier_runs_are_put_together_before_a_start(
    is_wanted: bool, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "SMALL_FILES", 4)
    request = desk.writes()
    sink = delta(options={"delta.autoOptimize.autoCompact": is_wanted})
    sink.tidy(desk.spark, request)
    sink.prepare(desk.spark, "id bigint", request)
    desk.spark.range(0, 4, 1, 4).write.format("delta").mode("append").save(request.managed)
    assert described(desk, request.managed).numFiles == 4
    sink.tidy(desk.spark, request)
    assert described(desk, request.managed).numFiles == (1 if is_wanted else 4)
    assert content(desk, request) == [(0,), (1,), (2,), (3,)]
