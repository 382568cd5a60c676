"""Findings are held against the truth: right and wrong ones, found and missed faults."""

import json
from pathlib import Path

from headwater.demo.judging import Finding, judged, read_truth
from headwater.demo.simulator import Fleet
from headwater.demo.world import LENGTH_S, NOISE, Fault, Kind, World

DRIFT = Fault("a", Kind.DRIFT, 100.0, 120.0, 6.0)
SILENCE = Fault("b", Kind.SILENCE, 110.0, 130.0)


def judge(*findings: Finding, since_s: float = 90.0, until_s: float = 200.0) -> tuple[float, float]:
    found = judged([DRIFT, SILENCE], findings, since_s=since_s, until_s=until_s)
    return found.precision, found.recall


def test_a_finding_is_right_while_its_device_has_a_fault() -> None:
    assert judge(Finding("anomalies", "a", 110.0)) == (1.0, 0.5)
    assert judge(Finding("silent", "b", 109.0)) == (1.0, 0.5)
    assert judge(Finding("anomalies", "a", 121.0)) == (0.0, 0.0)
    assert judge(Finding("anomalies", "c", 110.0)) == (0.0, 0.0)
    assert judge(Finding("anomalies", "a", 110.0), Finding("silent", "b", 109.0)) == (1.0, 1.0)


def test_what_was_before_the_beginning_does_not_count() -> None:
    assert judge(Finding("anomalies", "c", 80.0)) == (1.0, 0.0)
    assert judge(Finding("silent", "b", 109.0), since_s=105.0) == (1.0, 1.0)
    assert judge(Finding("anomalies", "a", 110.0), until_s=105.0) == (1.0, 1.0)


def test_recall_is_told_per_kind() -> None:
    lines = judged([DRIFT, SILENCE], [Finding("x", "a", 101.0)], since_s=0, until_s=200).lines()
    assert lines == [
        "  precision 1.00: 1 of 1 findings",
        "  recall 0.50: drift 1 of 1, silence 0 of 1",
    ]


def test_the_truth_is_written_as_it_happens_and_read_back(tmp_path: Path) -> None:
    fleet = Fleet("", "t", truth=tmp_path / "truth.jsonl")
    fleet._tell(iter([DRIFT]))
    fleet._tell(iter([SILENCE]))
    assert read_truth(tmp_path / "truth.jsonl") == [DRIFT, SILENCE]
    assert read_truth(tmp_path / "none") == []


def test_the_same_seed_is_the_same_world_and_every_kind_of_fault_comes() -> None:
    one, other = World(3, 50), World(3, 50)
    faults = [list(world.advance(at)) for world in (one, other) for at in (0.0, 200.0)]
    assert faults[:2] == faults[2:]
    assert {fault.kind for fault in one.faults} == set(Kind)
    assert World(4, 50).fleet != one.fleet


def test_a_fault_shows_in_what_the_device_measures() -> None:
    world = World(5, 30)
    list(world.advance(1000.0))
    list(world.advance(1200.0))
    for fault in world.faults:
        device = next(d for d in world.fleet if d.name == fault.device)
        begin, end = fault.start_s + 0.01, fault.start_s + LENGTH_S[fault.kind] - 0.01
        said = [world.celsius(device, at) for at in (begin, end)]
        match fault.kind:
            case Kind.SILENCE:
                assert said == [None, None]
            case Kind.STUCK:
                assert said[0] == said[1]
            case _:
                assert said[1] is not None
                off = said[1] - device.expected(end)
                assert abs(off - fault.size) < 5 * NOISE
        assert world.celsius(device, fault.end_s + 0.01) is not None


def test_the_fleet_sends_twice_from_wrong_clocks_and_malformed() -> None:
    fleet = Fleet("", "t", devices=10)
    records = [value for _ in range(5000) for _, value in fleet._signals()]
    readable = [json.loads(value) for value in records if value.endswith(b"}")]
    ids = [record["id"] for record in readable]
    assert 5 <= len(records) - len(readable) <= 50
    assert 3 <= len(ids) - len(set(ids)) <= 40
    assert len({record["device"] for record in readable}) == 10
