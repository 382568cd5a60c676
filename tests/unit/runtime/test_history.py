import json
from pathlib import Path

import pytest

from headwater.events import BatchCompleted, Event, LateCount, PipelineStarted
from headwater.observe.doctor.cases import batch_of
from headwater.runtime.history import HistoryReader, HistoryWriter, Record, read_history


def batch(number: int) -> BatchCompleted:
    at = "2026-01-01T00:00:00.000Z"
    return BatchCompleted("raw", number, at, 10, 1.0, 2.0, 100, late=LateCount(10, late=2))


def write(folder: Path, *events: Event, file_bytes: int = 10_000, files: int = 3) -> None:
    writer = HistoryWriter(folder, file_bytes=file_bytes, files=files)
    writer.start()
    for event in events:
        writer.report(event)
    writer.close()
    assert writer.dropped == 0


def numbers(records: list[Record]) -> list[int]:
    return [record.number for record in records]


def test_events_are_read_back_with_their_facts(tmp_path: Path) -> None:
    write(tmp_path, PipelineStarted("iot", ("raw",)), batch(0))
    started, done = read_history(tmp_path)
    assert (started.number, started.kind) == (1, "PipelineStarted")
    assert started.facts == {"pipeline": "iot", "tables": ["raw"]}
    assert (done.table, done.facts["batch"], done.facts["late"]["late"]) == ("raw", 0, 2)
    assert done.facts["at"] == "2026-01-01T00:00:00.000Z"
    assert done.at > done.facts["at"]
    assert batch_of(done) == batch(0)


def test_a_second_run_goes_on_in_the_same_history(tmp_path: Path) -> None:
    write(tmp_path, batch(0))
    write(tmp_path, batch(1), batch(2))
    assert numbers(list(read_history(tmp_path))) == [1, 2, 3]
    assert numbers(list(read_history(tmp_path, since=2))) == [3]
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_file_cut_short_is_read_up_to_the_cut_and_written_on(tmp_path: Path, cut: int) -> None:
    write(tmp_path, batch(0), batch(1))
    [file] = tmp_path.glob("*.jsonl")
    file.write_bytes(file.read_bytes()[:-cut])
    # Without its newline alone, the line is still whole.
    assert numbers(list(read_history(tmp_path))) == ([1, 2] if cut == 1 else [1])
    write(tmp_path, batch(7))
    assert [r.facts["batch"] for r in read_history(tmp_path)][-1] == 7
    found = numbers(list(read_history(tmp_path)))
    assert found == sorted(set(found))


def test_the_oldest_files_go_when_there_are_too_many(tmp_path: Path) -> None:
    for start in range(0, 60, 20):
        write(tmp_path, *map(batch, range(start, start + 20)), file_bytes=2000, files=3)
    files = sorted(tmp_path.glob("*.jsonl"))
    assert len(files) <= 3
    assert sum(file.stat().st_size for file in files) < 3 * 3000
    found = numbers(list(read_history(tmp_path)))
    assert found == list(range(found[0], 61))
    assert found[0] > 1


def test_a_reader_reads_on_where_it_was_across_files(tmp_path: Path) -> None:
    reader = HistoryReader(tmp_path)
    assert list(reader.new()) == []
    write(tmp_path, batch(0), batch(1))
    assert numbers(list(reader.new())) == [1, 2]
    write(tmp_path, *map(batch, range(2, 12)), file_bytes=1500, files=50)
    assert numbers(list(reader.new())) == list(range(3, 13))
    assert list(reader.new()) == []


def test_a_reader_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    write(tmp_path, batch(0))
    reader = HistoryReader(tmp_path)
    assert len(list(reader.new())) == 1
    [file] = tmp_path.glob("*.jsonl")
    line = json.dumps({"n": 2, "at": "x", "kind": "QueryStopped", "facts": {}})
    with open(file, "a") as half:
        half.write(line[:10])
        half.flush()
        assert list(reader.new()) == []
        half.write(line[10:] + "\n")
    assert [record.kind for record in reader.new()] == ["QueryStopped"]


def test_a_long_history_opens_at_its_newest_files(tmp_path: Path) -> None:
    write(tmp_path, *map(batch, range(40)), file_bytes=2000, files=50)
    found = numbers(list(HistoryReader(tmp_path, newest_bytes=1).new()))
    assert found[-1] == 40
    assert 0 < len(found) < 20


def test_a_disk_that_refuses_neither_blocks_nor_raises(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    writer = HistoryWriter(tmp_path / "taken")
    writer.start()
    writer.report(batch(0))
    writer.close()
    assert writer.dropped == 1


def test_a_history_that_was_removed_and_begun_anew_is_read_from_its_beginning(
    tmp_path: Path,
) -> None:
    write(tmp_path, *(batch(number) for number in range(5)))
    reader = HistoryReader(tmp_path)
    assert len(list(reader.new())) == 5
    for file in tmp_path.glob("*.jsonl"):
        file.unlink()
    write(tmp_path, batch(70))
    assert [record.facts["batch"] for record in reader.new()] == [70]
