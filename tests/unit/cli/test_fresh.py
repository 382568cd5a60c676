"""What `--fresh` would double is refused before anything is moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater import Pipeline
from headwater.cli.fresh import _stays, require_replaced
from headwater.connectors import console, delta, kafka, parquet, postgres, rate
from headwater.connectors.interface import Connector
from headwater.definitions import OutputMode, Table
from headwater.errors import FreshImpossible


def table(sink: Connector | None) -> Table:
    app = Pipeline("app")
    app.source("ticks", rate())
    app.sql("out", "select * from ticks", into=sink, key="value")
    return app.definitions().tables["out"]


@pytest.mark.parametrize("sink", [kafka("out"), postgres("out"), parquet("hdfs://here/out")])
def test_rows_that_would_be_there_twice_are_refused(tmp_path: Path, sink: Connector) -> None:
    assert _stays(table(sink), tmp_path)
    with pytest.raises(FreshImpossible):
        require_replaced(table(sink), OutputMode.APPEND)


@pytest.mark.parametrize("mode", [OutputMode.UPDATE, OutputMode.COMPLETE])
def test_rows_that_are_replaced_are_no_obstacle(mode: OutputMode) -> None:
    require_replaced(table(postgres("out")), mode)


@pytest.mark.parametrize("sink", [None, delta(), delta("out"), parquet("out"), console()])
def test_rows_that_are_moved_with_the_checkpoint_do_not_stay(
    tmp_path: Path, sink: Connector | None
) -> None:
    assert not _stays(table(sink), tmp_path)
