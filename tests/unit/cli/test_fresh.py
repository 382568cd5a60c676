"""What `--fresh` would double is refused before anything is moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater import Pipeline
from headwater.cli.fresh import _require_possible
from headwater.connectors import console, delta, kafka, parquet, postgres, rate
from headwater.connectors.interface import Connector
from headwater.errors import FreshImpossible
from headwater.runtime.storage import Files, Storage


def require(folder: Path, sink: Connector | None, *, is_resumed: bool = True, **table: Any) -> None:
    app = Pipeline("app")
    app.source("ticks", rate())
    app.sql("out", "select * from ticks", into=sink, **table)
    storage = Storage(str(folder / ".headwater"), "app")
    if is_resumed:
        Path(storage.checkpoint("out")).mkdir(parents=True)
    _require_possible(app.definitions().tables["out"], Files(storage), storage, folder)


@pytest.mark.parametrize("sink", [kafka("out"), postgres("out"), parquet("hdfs://here/out")])
def test_rows_that_would_be_there_twice_are_refused(tmp_path: Path, sink: Connector) -> None:
    with pytest.raises(FreshImpossible):
        require(tmp_path, sink)


@pytest.mark.parametrize(
    ("sink", "table"),
    [
        (None, {}),
        (delta("out"), {}),
        (parquet("out"), {}),
        (console(), {}),
        (postgres("out"), {"key": "value", "mode": "update"}),
        (postgres("out"), {"mode": "complete"}),
    ],
)
def test_rows_that_are_moved_or_replaced_are_no_obstacle(
    tmp_path: Path, sink: Connector | None, table: dict[str, Any]
) -> None:
    require(tmp_path, sink, **table)


def test_a_table_that_never_ran_is_fresh(tmp_path: Path) -> None:
    require(tmp_path, kafka("out"), is_resumed=False)
