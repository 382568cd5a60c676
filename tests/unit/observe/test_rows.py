"""Rows as plain readers see them; the files are written by plain writers too."""

import json
import os
from pathlib import Path

import pyarrow
import pytest
from deltalake import write_deltalake
from pyarrow import csv as arrow_csv
from pyarrow import orc, parquet

from headwater.connectors.manifest import committed_files, remove_orphans
from headwater.observe.rows import delta_rows, file_rows


def numbers(*values: int) -> pyarrow.Table:
    return pyarrow.table({"n": list(values)})


def test_no_table_is_no_rows(tmp_path: Path) -> None:
    assert delta_rows(str(tmp_path / "none"), 5) is None


def test_an_empty_table_has_columns(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), numbers(1).slice(0, 0))
    found = delta_rows(str(tmp_path / "t"), 5)
    assert found is not None
    assert (found.columns, found.rows, found.total) == (("n",), (), 0)


def test_the_newest_rows_come_first(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for values in ([1, 2, 3], [4, 5], [6, 7]):
        write_deltalake(path, numbers(*values), mode="append")
    found = delta_rows(path, 3)
    assert found is not None
    assert found.total == 7
    assert [row[0] for row in found.rows] == [6, 7, 5]


def test_replaced_rows_are_gone(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, numbers(1, 2))
    write_deltalake(path, numbers(3), mode="overwrite")
    found = delta_rows(path, 5)
    assert found is not None
    assert found.rows == ((3,),)


def test_partition_columns_are_read_too(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = pyarrow.table({"site": ["a b", "c"], "n": [1, 2]})
    write_deltalake(path, table, partition_by=["site"])
    found = delta_rows(path, 5)
    assert found is not None
    assert sorted(found.rows) == [("a b", 1), ("c", 2)]


def manifest(folder: Path, name: str, files: list[Path]) -> None:
    log = folder / "_spark_metadata"
    log.mkdir(exist_ok=True, parents=True)
    entries = [json.dumps({"path": file.as_uri(), "action": "add"}) for file in files]
    (log / name).write_text("\n".join(["v1", *entries]))


def test_files_that_no_batch_committed_do_not_count(tmp_path: Path) -> None:
    for name, value in {"a": 1, "b": 2, "stray": 3}.items():
        parquet.write_table(numbers(value), tmp_path / f"{name}.parquet")
    manifest(tmp_path, "0", [tmp_path / "a.parquet"])
    manifest(tmp_path, "1", [tmp_path / "b.parquet"])
    found = file_rows(tmp_path, "parquet", 5)
    assert found is not None
    assert found.rows == ((2,), (1,))


def test_a_compact_manifest_replaces_those_before_it(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a b.txt", "b.txt", "c.txt")]
    for file in files:
        file.write_text(file.stem)
    manifest(tmp_path, "8", files[:1])
    manifest(tmp_path, "9.compact", files[:2])
    manifest(tmp_path, "10", files[2:])
    assert committed_files(tmp_path) == files


def test_only_files_that_spark_wrote_and_no_batch_names_are_removed(tmp_path: Path) -> None:
    part = "part-00000-0a1b2c3d-1111-2222-3333-444455556666-c000.txt"
    kept, orphan = tmp_path / part, tmp_path / part.replace("0a1b", "ffff")
    mine = tmp_path / "part-list.txt"
    for file in (kept, orphan, mine):
        file.write_text("x")
    assert remove_orphans(tmp_path) == []
    manifest(tmp_path, "0", [kept])
    # What is older than the stream is somebody else's, and so is what lies in a table below.
    older = tmp_path / part.replace("0a1b", "aaaa")
    older.write_text("x")
    os.utime(older, (0, 0))
    below = [tmp_path / "errors" / part, tmp_path / "deltas" / part]
    manifest(tmp_path / "errors", "0", [])
    (tmp_path / "deltas/_delta_log").mkdir(parents=True)
    partition = tmp_path / "day=1" / part.replace("0a1b", "eeee")
    partition.parent.mkdir()
    for file in (orphan, partition, *below):
        file.write_text("x")
    assert set(remove_orphans(tmp_path)) == {orphan, partition}
    assert all(file.exists() for file in (kept, mine, older, *below))


def test_a_folder_without_a_manifest_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part.crc").touch()
    arrow_csv.write_csv(numbers(1, 2), tmp_path / "part.csv")
    found = file_rows(tmp_path, "csv", 5)
    assert found is not None
    assert found.rows == ((1,), (2,))


@pytest.mark.parametrize("format", ["json", "orc", "text", "csv"])
def test_every_format_of_files_is_read(tmp_path: Path, format: str) -> None:
    file = tmp_path / f"part.{format}"
    match format:
        case "json":
            file.write_text('{"n": 7}\n')
        case "orc":
            orc.write_table(numbers(7), file)
        case _:
            file.write_text("n\n7\n")
    found = file_rows(tmp_path, format, 1)
    assert found is not None
    assert [str(row[0]) for row in found.rows] == ["7"]


def test_an_empty_file_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "part.json").touch()
    found = file_rows(tmp_path, "json", 5)
    assert found is not None
    assert found.rows == ()
