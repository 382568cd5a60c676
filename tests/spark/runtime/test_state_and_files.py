"""What `headwater state` and `headwater files` show after a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.cli import app as cli_app
from headwater.cli import main
from headwater.errors import NoState
from headwater.observe.state import state_of

APP = """
from headwater import Pipeline
from headwater.connectors import parquet, queue

app = Pipeline("app")
app.source("words", queue([[("a",), ("b",)], [("a",)]]), schema="word string")
app.table(name="copies", into=parquet("copies"))(lambda words: words)
app.table(name="counts", key="word", mode="update", unbounded_state=True)(
    lambda words: words.groupBy("word").count()
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
    pipeline = cli_app.load_app("app.py", flags={}).pipeline
    pipeline.refresh()
    checkpoints = tmp_path / ".headwater/app/checkpoints"
    found = state_of(spark, "counts", str(checkpoints / "counts"))
    assert found.keys == 2
    assert sorted(key for key, _ in found.rows) == ['{"word":"a"}', '{"word":"b"}']
    assert "stateStoreSave" in found.operators[0]
    for table, operator in (("copies", 0), ("counts", 7)):
        with pytest.raises(NoState):
            state_of(spark, table, str(checkpoints / table), operator)

    # What a crashed attempt leaves behind is no file of the table, and is gone at the next start.
    files = sorted((tmp_path / "copies").glob("part-*.parquet"))
    orphan = tmp_path / "copies" / files[0].name.replace("part-00000", "part-00077")
    orphan.write_bytes(files[0].read_bytes())
    capsys.readouterr()
    assert main.main(["files", "copies"]) == 0
    assert sorted(capsys.readouterr().out.split()) == [str(file) for file in files]
    pipeline.refresh()
    assert not orphan.exists()
    assert main.main(["files", "counts"]) == 2
    assert "NOT_A_FOLDER_OF_FILES" in capsys.readouterr().err
