"""A pipeline from start to stop, in one session."""

from __future__ import annotations

import json as jsonlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryListener

from headwater import Pipeline
from headwater.connectors import csv, delta, foreach_batch, json, parquet
from headwater.errors import (
    CheckpointExists,
    FunctionFailed,
    NotADataFrame,
    PipelineOwned,
    QueryFailedError,
    RowsWithoutCheckpoint,
    UnknownTable,
)
from headwater.events import BatchCompleted, Event, QueryFailed, RejectedCaptured
from headwater.ledger import transactions
from headwater.local.processes import wait_until
from headwater.runtime.query import QueryState
from headwater.runtime.sides import DeltaSideStore
from headwater.settings import Settings
from headwater.testing import Harness, add, advance, check, expect_failure, process, raw

pytestmark = pytest.mark.usefixtures("spark")
WAIT_S = 300.0
SCHEMA = "device string, at timestamp, celsius double"


def write(folder: Path, name: str, *rows: dict[str, Any] | str) -> None:
    inbox = folder / "in"
    inbox.mkdir(exist_ok=True)
    lines = [row if isinstance(row, str) else jsonlib.dumps(row) for row in rows]
    (folder / f".{name}").write_text("\n".join(lines) + "\n")
    (folder / f".{name}").rename(inbox / f"{name}.json")


def reading(device: str, minute: int, celsius: float) -> dict[str, Any]:
    return {"device": device, "at": f"2026-01-01T12:{minute:02}:05Z", "celsius": celsius}


def pipeline(folder: Path) -> Pipeline:
    app = Pipeline("app", settings=Settings(folder=folder))
    app.source(
        "signals",
        json("in"),
        schema=SCHEMA,
        event_time="at",
        watermark="10 minutes",
        max_per_batch="1 file",
    )
    return app


def storing(folder: Path) -> Pipeline:
    app = pipeline(folder)

    @app.table
    def raw(signals: DataFrame) -> DataFrame:
        return signals

    return app


def stored(spark: SparkSession, folder: Path, table: str) -> list[tuple[Any, ...]]:
    frame = spark.read.format("delta").load(str(folder / ".headwater/app/tables" / table))
    return sorted(tuple(row) for row in frame.collect())


def test_a_backlog_is_read_in_several_batches(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, str(number), reading("a", number, 20.0))
    events: list[Event] = []
    storing(tmp_path).refresh(report=events.append)
    batches = [e.input_rows for e in events if isinstance(e, BatchCompleted) and e.input_rows]
    assert batches == [1, 1, 1, 1]
    assert len(stored(spark, tmp_path, "raw")) == 4


def test_rejected_records_are_kept_once_across_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0), "not json", {"device": "b", "celsius": "hot"})
    events: list[Event] = []
    storing(tmp_path).refresh(report=events.append)
    write(tmp_path, "2", "still not json")
    storing(tmp_path).refresh(report=events.append)
    storing(tmp_path).refresh(report=events.append)
    reasons = [row[0] for row in stored(spark, tmp_path, "signals__rejected")]
    assert len(reasons) == 3
    assert 'column celsius: found "hot", expected double' in reasons
    assert sum(e.rows for e in events if isinstance(e, RejectedCaptured)) == 3


def test_a_lost_cursor_does_not_store_rejected_records_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, "1", "not json")
    storing(tmp_path).refresh()
    cursor = tmp_path / ".headwater/app/checkpoints/raw/headwater/signals__rejected"
    cursor.unlink()
    storing(tmp_path).refresh()
    assert len(stored(spark, tmp_path, "signals__rejected")) == 1


def test_batches_that_a_crash_left_undecided_are_decided_at_the_next_start(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0), "not json")
    with monkeypatch.context() as patch:
        # The run forgets what it counted, as a killed driver would.
        patch.setattr("headwater.runtime.sides.SideTables.decide", lambda *_: None)
        patch.setattr("headwater.runtime.sides.SideTables.close", lambda *_: None)
        storing(tmp_path).refresh()
    assert not (tmp_path / ".headwater/app/tables/signals__rejected").exists()
    storing(tmp_path).refresh()
    assert len(stored(spark, tmp_path, "signals__rejected")) == 1


def test_a_capture_that_failed_is_made_up_for_with_the_next_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0), "not json")
    append, attempts = transactions.append, []

    def fails_once(*rows: Any, **of: Any) -> int:
        attempts.append(of["version"])
        if len(attempts) == 1:
            raise OSError("no room")
        return append(*rows, **of)

    monkeypatch.setattr(transactions, "append", fails_once)
    run = storing(tmp_path).start()
    run["raw"].streaming_query.processAllAvailable()
    run.await_sides()
    write(tmp_path, "2", reading("a", 1, 21.0))
    run["raw"].streaming_query.processAllAvailable()
    run.stop()
    run.raise_failure()
    assert attempts == [0, 1]
    assert len(stored(spark, tmp_path, "signals__rejected")) == 1


def test_batches_that_wait_share_a_transaction(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, versions, is_free = DeltaSideStore.append, [], threading.Event()

    def waits(
        store: DeltaSideStore, table: str, rows: Any, of: str, version: int, **how: Any
    ) -> int:
        versions.append(version)
        assert is_free.wait(WAIT_S)
        return append(store, table, rows, of, version, **how)

    monkeypatch.setattr(DeltaSideStore, "append", waits)
    (tmp_path / "in").mkdir()
    run = storing(tmp_path).start()
    for number in range(4):
        write(tmp_path, str(number), reading("a", number, 20.0), f"not json {number}")
        run["raw"].streaming_query.processAllAvailable()
        assert wait_until(lambda: versions, timeout_s=WAIT_S)
    is_free.set()
    run.stop()
    run.raise_failure()
    assert versions == [0, 3]
    assert len(stored(spark, tmp_path, "signals__rejected")) == 4


def test_on_reject_fail_stops_the_query(harness: Callable[..., Harness]) -> None:
    app = Pipeline("app")
    app.source("signals", json("in"), schema=SCHEMA, on_reject="fail")
    app.sql("raw", "select * from signals")
    harness(app).run(
        add("signals", [("a", "12:00:05", 20.0)]),
        process(),
        check("raw", [("a", "12:00:05", 20.0)]),
        add("signals", [raw("not json")]),
        expect_failure("QUERY_FAILED", contains="REJECTED_RECORD: source signals"),
    )


def test_one_failing_query_does_not_stop_the_others(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    app = storing(tmp_path)

    def explode(frame: DataFrame, batch: int) -> None:
        raise ValueError("the user's own words")

    @app.table(into=foreach_batch(explode))
    def broken(signals: DataFrame) -> DataFrame:
        return signals

    events: list[Event] = []
    with pytest.raises(QueryFailedError) as caught:
        app.refresh(report=events.append)
    assert "the user's own words" in str(caught.value)
    assert caught.value.where is not None
    assert caught.value.where.file == __file__
    assert 'raise ValueError("the user' in _line(caught.value.where.line)
    assert [e.table for e in events if isinstance(e, QueryFailed)] == ["broken"]
    assert len(stored(spark, tmp_path, "raw")) == 1


def _line(number: int) -> str:
    return Path(__file__).read_text().splitlines()[number - 1]


def test_a_stop_lets_the_running_batch_finish_and_commit(tmp_path: Path) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    write(tmp_path, "2", reading("a", 1, 20.0))
    entered, go_on = threading.Event(), threading.Event()
    finished: list[int] = []

    def slow(frame: DataFrame, batch: int) -> None:
        entered.set()
        assert go_on.wait(WAIT_S)
        finished.append(batch)

    app = pipeline(tmp_path)
    app.sql("kept", "select * from signals", into=foreach_batch(slow))
    run = app.start()
    assert entered.wait(WAIT_S)
    stopping = threading.Thread(target=run.stop)
    stopping.start()
    # The stop has been asked for; Spark looks at it when the batch ends.
    assert wait_until(lambda: not run["kept"].streaming_query.isActive, timeout_s=WAIT_S)
    go_on.set()
    stopping.join()
    assert finished == [0]
    assert run["kept"].last_batch == 0
    assert run["kept"].state is QueryState.STOPPED


def test_a_batch_that_ends_before_its_query_is_known_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    was_told = threading.Event()

    class Later(StreamingQueryListener):
        """Hears of a batch once the pipeline has."""

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
            pass

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            was_told.set()

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            pass

    begin, later = DataStreamWriter.start, Later()

    def begin_slowly(writer: DataStreamWriter) -> StreamingQuery:
        spark.streams.addListener(later)
        query = begin(writer)
        assert wait_until(lambda: query._jsq.lastProgress() is not None, timeout_s=WAIT_S)
        was_told.wait(2)
        return query

    monkeypatch.setattr(DataStreamWriter, "start", begin_slowly)
    events: list[Event] = []
    try:
        storing(tmp_path).refresh(report=events.append)
    finally:
        spark.streams.removeListener(later)
    assert [e.input_rows for e in events if isinstance(e, BatchCompleted)] == [1]


def test_a_draining_stop_processes_what_is_there_and_tables_behind_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number in range(3):
        write(tmp_path, str(number), reading("a", number, 20.0))
    entered, go_on = threading.Event(), threading.Event()
    app = storing(tmp_path)
    batches: list[int] = []

    def slow(frame: DataFrame, batch: int) -> None:
        entered.set()
        assert go_on.wait(WAIT_S)
        batches.append(frame.count())

    app.sql("slow", "select * from signals", into=foreach_batch(slow))
    app.sql("copied", "select * from stream(raw)", trigger="1 hour")
    run = app.start()
    assert entered.wait(WAIT_S)
    stopping = threading.Thread(target=run.stop, kwargs={"drains": True, "deadline_s": WAIT_S})
    stopping.start()
    go_on.set()
    stopping.join()
    run.raise_failure()
    assert batches == [1, 1, 1]
    assert len(stored(spark, tmp_path, "copied")) == 3
    assert run["slow"].state is QueryState.STOPPED


def test_a_stop_past_its_deadline_is_forced_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    entered, release = threading.Event(), threading.Event()

    def stuck(frame: DataFrame, batch: int) -> None:
        entered.set()
        release.wait(WAIT_S)

    app = pipeline(tmp_path)
    app.sql("kept", "select * from signals", into=foreach_batch(stuck))
    run = app.start()
    assert entered.wait(WAIT_S)
    try:
        assert run.stop(deadline_s=0.2) is True
        assert run["kept"].last_batch is None
    finally:
        release.set()


def test_a_stopped_query_restarts_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    run = storing(tmp_path).start()
    run["raw"].streaming_query.processAllAvailable()
    run["raw"].stop()
    assert run["raw"].state is QueryState.STOPPED
    write(tmp_path, "2", reading("a", 1, 21.0))
    run["raw"].restart()
    run["raw"].streaming_query.processAllAvailable()
    run.stop()
    assert [row[2] for row in stored(spark, tmp_path, "raw")] == [20.0, 21.0]
    assert run["raw"].last_batch == 1


def test_waiting_ends_at_the_time_out(tmp_path: Path) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    run = storing(tmp_path).start()
    try:
        assert run.await_termination(timeout_s=0.1) is False
        assert run.is_active
    finally:
        run.stop()
    assert run.await_termination(timeout_s=0.1) is True


def test_a_folder_is_owned_by_one_running_pipeline(tmp_path: Path) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    run = storing(tmp_path).start()
    try:
        with pytest.raises(PipelineOwned):
            storing(tmp_path).start()
    finally:
        run.stop()
    storing(tmp_path).refresh()


def test_an_unknown_query_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    run = storing(tmp_path).refresh()
    with pytest.raises(UnknownTable, match="raw"):
        run["rwa"]


def test_rows_without_a_checkpoint_are_not_written_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    app = storing(tmp_path)
    app.replace()
    with pytest.raises(RowsWithoutCheckpoint):
        app.refresh()
    assert len(stored(spark, tmp_path, "raw")) == 1


def test_a_batch_writes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0), "not json")
    frames = storing(tmp_path).batch()
    assert frames["raw"].count() == 1
    assert frames["signals__rejected"].count() == 1
    assert not (tmp_path / ".headwater").exists()


def test_a_batch_of_one_table_leaves_what_the_stream_of_another_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = storing(tmp_path)
    app.table(name="copies")(lambda signals: signals)
    write(tmp_path, "1", reading("a", 0, 20.0), "not json")
    app.refresh(tables=["raw"])
    write(tmp_path, "2", "not json either")
    app.replace(tables=["copies"])
    # The stream of `raw` reports them: what it has not read yet, it stores when it does.
    assert len(stored(spark, tmp_path, "signals__rejected")) == 1
    app.refresh(tables=["raw"])
    assert len(stored(spark, tmp_path, "signals__rejected")) == 2


def test_replacing_what_a_stream_wrote_must_be_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    app = storing(tmp_path)
    app.refresh()
    with pytest.raises(CheckpointExists):
        app.replace()
    app.replace(replaces_streams=True)
    assert len(stored(spark, tmp_path, "raw")) == 1
    assert list((tmp_path / ".headwater/app/aside").glob("raw-*/checkpoint"))


def test_an_append_table_is_read_as_a_stream_and_an_update_table_as_a_lookup(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0), reading("b", 1, 30.0))
    app = storing(tmp_path)
    app.sql("hot", "select device, celsius from raw where celsius > 25")
    mean = "select device, avg(celsius) m from raw group by device"
    app.sql("means", mean, key="device", unbounded_state=True)
    app.refresh(tables=["raw", "means"])
    app.sql("judged", "select hot.*, m from hot join means using (device)")
    app.refresh()
    app.refresh()
    assert stored(spark, tmp_path, "hot") == [("b", 30.0)]
    assert stored(spark, tmp_path, "judged") == [("b", 30.0, 30.0)]


def test_a_table_started_alone_reads_what_its_input_has_stored(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0), reading("b", 1, 30.0))
    app = storing(tmp_path)
    app.sql("hot", "select device, celsius from raw where celsius > 25")
    app.refresh(tables=["raw"])
    app.refresh(tables=["hot"])
    assert stored(spark, tmp_path, "hot") == [("b", 30.0)]


def test_a_table_of_files_is_read_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0), reading("b", 1, 30.0))
    app = pipeline(tmp_path)
    app.sql("kept", "select device, celsius from signals", into=parquet("kept"))
    app.sql("hot", "select device, celsius from kept where celsius > 25")
    app.refresh()
    app.refresh()
    assert stored(spark, tmp_path, "hot") == [("b", 30.0)]


def test_a_lookup_with_a_record_that_does_not_parse_fails_the_query(
    harness: Callable[..., Harness], tmp_path: Path
) -> None:
    (tmp_path / "limits.csv").write_text("device,most\na,hot\n")
    app = pipeline(tmp_path)
    app.lookup("limits", csv("limits.csv"), schema="device string, most double")
    app.sql("judged", "select * from signals join limits using (device)")
    harness(app).run(
        add("signals", [("a", "12:00:05", 20.0)]),
        expect_failure("QUERY_FAILED", contains="REJECTED_RECORD: lookup limits"),
    )


def test_two_rows_for_one_key_are_an_error_even_where_the_key_is_new(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0), reading("a", 1, 30.0))
    app = pipeline(tmp_path)
    app.lookup("limits", csv("limits.csv"), schema="device string, most double")
    (tmp_path / "limits.csv").write_text("device,most\na,30\na,40\n")
    hottest = "select device, max(celsius) as celsius from signals group by device"
    # Whether a lookup has several rows of a device is known when it is read.
    judged = f"select * from ({hottest}) join limits using (device)"
    app.sql("latest", judged, key="device", mode="update", unbounded_state=True)
    with pytest.raises(QueryFailedError, match="KEY_NOT_UNIQUE"):
        app.refresh()
    assert stored(spark, tmp_path, "latest") == []


@pytest.mark.parametrize("is_batch", [False, True], ids=["stream", "batch"])
def test_the_last_row_of_a_key_stays_however_it_is_run(
    is_batch: bool, spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, "1", reading("a", 2, 20.0), reading("a", 1, 30.0), reading("b", 1, 1.0))
    app = pipeline(tmp_path)
    app.sql("latest", "select device, celsius, at from signals", key="device", order_by="at")
    app.replace() if is_batch else app.refresh()
    assert [row[:2] for row in stored(spark, tmp_path, "latest")] == [("a", 20.0), ("b", 1.0)]


def test_rows_of_a_batch_run_at_a_path_are_not_written_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    app = pipeline(tmp_path)
    app.sql("kept", "select * from signals", into=delta("kept"))
    app.replace()
    with pytest.raises(RowsWithoutCheckpoint):
        app.refresh()
    assert spark.read.format("delta").load(str(tmp_path / "kept")).count() == 1


@pytest.mark.parametrize("unit", ["ms", "milliseconds"])
def test_short_units_reach_spark(harness: Callable[..., Harness], unit: str) -> None:
    app = Pipeline("app")
    app.source("signals", json("in"), schema=SCHEMA, event_time="at", watermark="10 min")
    app.sql("kept", "select device from signals", trigger=f"100 {unit}")
    harness(app).run(
        add("signals", [("a", "12:00:05", 20.0)]),
        process(),
        check("kept", [("a",)]),
        add("signals", [("b", "12:00:06", 20.0)]),
        advance("100 ms"),
        check("kept", [("a",), ("b",)]),
    )


@pytest.mark.parametrize(("result", "found"), [(None, "nothing"), ("rows", "a str")])
def test_a_function_must_return_a_dataframe(tmp_path: Path, result: Any, found: str) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    app = pipeline(tmp_path)

    @app.table
    def raw(signals: DataFrame) -> Any:
        return result

    with pytest.raises(NotADataFrame, match=found) as caught:
        app.start()
    assert caught.value.where is not None


def test_a_function_that_raises_shows_the_users_line(tmp_path: Path) -> None:
    write(tmp_path, "1", reading("a", 0, 20.0))
    app = pipeline(tmp_path)

    @app.table
    def raw(signals: DataFrame) -> DataFrame:
        return signals.select("celsiuss")

    with pytest.raises(FunctionFailed, match="celsius") as caught:
        app.start()
    assert caught.value.where is not None
    assert 'signals.select("celsiuss")' in _line(caught.value.where.line)
