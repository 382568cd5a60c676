"""How `verify --crash` gives its input."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from headwater.cli.crashes import split_for_batches


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (1, ["000.parquet"]),
        (3, ["000.parquet", "001.parquet", "last.parquet"]),
        (100, [*(f"{number:03}.parquet" for number in range(15)), "last.parquet"]),
    ],
)
def test_rows_come_in_their_order_and_the_last_are_kept_apart(
    tmp_path: Path, rows: int, names: list[str]
) -> None:
    recorded, folder = tmp_path / "recorded.parquet", tmp_path / "input"
    parquet.write_table(pa.table({"id": range(rows)}), recorded)

    split_for_batches(recorded, folder)

    # Spark reads the oldest file first.
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
    assert [file.name for file in files] == names
    ids = [parquet.read_table(file)["id"].to_pylist() for file in files]
    assert [one for part in ids for one in part] == list(range(rows))
