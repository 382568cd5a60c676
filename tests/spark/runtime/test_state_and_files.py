"""What `headwater state` and `headwater files` show after a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.cli import app as cli_app
from headwater.cli import main
from headwater.cli.state import state_lines
from headwater.errors import NoState
from headwater.observe.state import state_of
from headwater.runtime.storage import Storage

APP = """
import datetime as dt
from collections.abc import Iterator

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from headwater import Pipeline
from headwater.connectors import parquet, queue

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


class Counts(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n long")
        self.last = handle.getMapState("last", "word string", "n long")
        self.handle = handle

    def handleInputRows(self, key, rows, timerValues):
        n = (self.count.get()[0] if self.count.exists() else 0) + len(list(rows))
        self.count.update((n,))
        self.last.updateValue((key[0],), (n,))
        self.handle.registerTimer(int(NOON.timestamp() * 1000) + 7_200_000)
        return iter([Row(word=key[0], n=n)])

    def close(self):
        pass


app = Pipeline("app")
rows = [[("a", NOON), ("b", NOON)], [("a", NOON)]]
timed = {"schema": "word string, at timestamp", "event_time": "at", "watermark": "1 hour"}
app.source("words", queue(rows), **timed)
app.source("others", queue([[("c", NOON)]]), **timed)
app.table(name="copies", into=parquet("copies"))(lambda words: words)
app.table(name="counts", key="word", mode="update", unbounded_state=True)(
    lambda words: words.groupBy("word").count()
)
app.sql(
    "pairs",
    "SELECT w.word, w.at FROM words w LEFT JOIN others o "
    "ON w.word = o.word AND o.at BETWEEN w.at AND w.at + INTERVAL 1 HOUR",
)
app.table(name="counted", unbounded_state=True)(
    lambda words: words.groupBy("word").transformWithState(
        Counts(), "word string, n long", "append", "eventTime"
    )
)
"""


def test_state_and_files_of_a_finished_run(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(APP)
    application = cli_app.load_app("app.py", flags={})
    pipeline = application.pipeline
    # One by one: Spark gives a Python worker 10 s to start.
    for table in ("copies", "counts", "pairs", "counted"):
        pipeline.refresh(tables=[table])
    storage = Storage(application.settings.storage_root, "app")
    an_aggregation_has_keys_and_bytes_per_partition(spark, storage)
    a_join_has_two_sides(spark, storage)
    a_processor_has_variables_and_timers(spark, storage)
    what_is_not_there_is_refused(spark, storage)

    # What a crashed attempt leaves behind is no file of the table, and is gone at the next start.
    files = sorted((tmp_path / "copies").glob("part-*.parquet"))
    orphan = tmp_path / "copies" / files[0].name.replace("part-00000", "part-00077")
    orphan.write_bytes(files[0].read_bytes())
    capsys.readouterr()
    assert main.main(["files", "copies"]) == 0
    assert sorted(capsys.readouterr().out.split()) == [str(file) for file in files]
    pipeline.refresh(tables=["copies"])
    assert not orphan.exists()
    assert main.main(["files", "counts"]) == 2
    assert "NOT_A_FOLDER_OF_FILES" in capsys.readouterr().err


def an_aggregation_has_keys_and_bytes_per_partition(spark: SparkSession, storage: Storage) -> None:
    found = state_of(spark, storage, "counts")
    [part] = found.parts
    assert sum(part.keys) == sum(part.entries) == 2
    assert len(part.keys) == len(found.bytes_on_disk)
    assert all(size > 0 for size in found.bytes_on_disk)
    assert sorted(part.rows) == [('{"word":"a"}', '{"count":2}'), ('{"word":"b"}', '{"count":1}')]
    assert "stateStoreSave" in found.operators[0]
    told = state_lines("counts", found)
    assert "2 keys, 2 entries" in told
    assert f"{sum(found.bytes_on_disk):,} bytes on disk" in told[1]
    assert len(state_of(spark, storage, "counts", limit=1).parts[0].rows) == 1


def a_join_has_two_sides(spark: SparkSession, storage: Storage) -> None:
    left, right = state_of(spark, storage, "pairs").parts
    assert (left.name, sum(left.keys), sum(left.entries)) == ("left", 2, 3)
    assert (right.name, sum(right.keys), sum(right.entries)) == ("right", 1, 1)
    [(key, value)] = right.rows
    assert '"c"' in key
    assert "2026-01-01T12:00:00" in value
    [only] = state_of(spark, storage, "pairs", part="left").parts
    assert only == left


def a_processor_has_variables_and_timers(spark: SparkSession, storage: Storage) -> None:
    found = state_of(spark, storage, "counted")
    assert [part.name for part in found.parts] == ["count", "last", "timers"]
    assert [part.kind for part in found.parts][:2] == ["ValueState", "MapState"]
    count, last, timers = found.parts
    assert sorted(count.rows) == [('{"word":"a"}', '{"n":2}'), ('{"word":"b"}', '{"n":1}')]
    assert '"user_map_key":{"word":"a"},"user_map_value":{"n":2}' in sorted(last.rows)[0][1]
    assert "expiration_timestamp_ms" in timers.rows[0][1]
    assert any(line.startswith("last (MapState): 2 keys") for line in state_lines("c", found))


def what_is_not_there_is_refused(spark: SparkSession, storage: Storage) -> None:
    with pytest.raises(NoState, match="none of its operators keeps state"):
        state_of(spark, storage, "copies")
    with pytest.raises(NoState, match="stateStoreSave"):
        state_of(spark, storage, "counts", 7)
    with pytest.raises(NoState, match="parts: left, right"):
        state_of(spark, storage, "pairs", part="middle")
    with pytest.raises(NoState, match="no batch was committed yet"):
        state_of(spark, storage, "never_run")
