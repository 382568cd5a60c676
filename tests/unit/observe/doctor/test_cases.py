from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from headwater.observe.doctor.cases import Recent, cases
from headwater.runtime.history import Record


def batch(number: int, table: str = "raw", **facts: Any) -> Record:
    at = f"2026-01-01T12:00:{number:02}.000Z"
    given = {
        "table": table,
        "batch": number,
        "at": at,
        "input_rows": 1,
        "input_rows_per_s": 1.0,
        "processed_rows_per_s": 1.0,
        "duration_ms": 500,
    }
    return Record(number, at, "BatchCompleted", {**given, **facts})


STARTED = Record(0, "2026-01-01T12:00:00.000Z", "QueryStarted", {"table": "raw"})


def recent(records: Iterable[Record]) -> Recent:
    found = Recent()
    for record in records:
        found.add(record)
    return found


def test_only_the_last_run_counts_and_not_its_first_batches() -> None:
    records = [STARTED, *map(batch, range(5)), STARTED, *map(batch, range(5, 10))]
    [case] = cases(recent(records), None)
    assert [b.batch for b in case.batches] == [7, 8, 9]


def test_the_first_minutes_count_until_there_is_enough_after_them() -> None:
    late = [replace(batch(n), at="2026-01-01T12:02:10.000Z") for n in range(6, 11)]
    early = [STARTED, *map(batch, range(6))]
    [case] = cases(recent([*early, *late[:-1]]), None)
    assert [b.batch for b in case.batches] == [2, 3, 4, 5, 6, 7, 8, 9]
    [case] = cases(recent([*early, *late]), None)
    assert [b.batch for b in case.batches] == [6, 7, 8, 9, 10]
    patient = Recent(can_wait=True)
    for record in [*early, *late[:1]]:
        patient.add(record)
    [case] = cases(patient, None)
    assert [b.batch for b in case.batches] == [6]


def test_facts_of_a_newer_version_are_left_out() -> None:
    records = [batch(n, tomorrow=1, late={"rows": 3, "late": 1}) for n in range(4)]
    [case] = cases(recent(records), None)
    assert case.batches[0].late is not None
    assert case.batches[0].late.late == 1


def test_sources_are_found_through_views() -> None:
    nodes = [
        {"name": "signals", "kind": "source", "reads": []},
        {"name": "readings", "kind": "view", "reads": ["signals", "sites"]},
        {"name": "sites", "kind": "lookup", "reads": []},
        {"name": "raw", "kind": "table", "reads": ["readings"]},
    ]
    [case] = cases(Recent(), {"nodes": nodes, "cores": 4})
    assert [source["name"] for source in case.sources] == ["signals"]
    assert (case.table, case.cores, case.batches) == ("raw", 4, ())


def test_load_is_the_share_of_time_in_which_batches_ran() -> None:
    [case] = cases(recent(map(batch, range(12))), None)
    assert case.load == 0.5
