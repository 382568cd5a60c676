"""`headwater state` and `headwater files`, as a user calls them after a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_state_and_files_of_a_finished_run(start: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    run = start("run", "--available-now")
    assert run.end() == 0, run.output
    state = start("state", "counts")
    assert state.end() == 0, state.output
    assert "2 keys in" in state.output
    assert '{"word":"a"}' in state.output
    assert "stateStoreSave" in state.output
    none = start("state", "copies")
    assert none.end() == 2
    assert "NO_STATE" in none.output
    # What a crashed attempt leaves behind is no file of the table, and is gone at the next start.
    files = sorted((tmp_path / "copies").glob("part-*.parquet"))
    orphan = tmp_path / "copies" / files[0].name.replace("part-00000", "part-00077")
    orphan.write_bytes(files[0].read_bytes())
    listed = start("files", "copies")
    assert listed.end() == 0, listed.output
    assert sorted(listed.output.split()) == [str(file) for file in files]
    assert start("run", "--available-now").end() == 0
    assert not orphan.exists()
    assert start("files", "counts").end() == 2
