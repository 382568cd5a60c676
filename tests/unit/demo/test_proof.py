"""The proof of the demo can fail: each way of being wrong is seen."""

import json
from collections import Counter

import pytest

from headwater.demo.proof import TopicContent, compared, readable_id
from headwater.demo.simulator import Fleet

CONTENT = TopicContent(records=5, ids=Counter([1, 2, 3, 4]), malformed=1)


def test_every_record_once_is_a_proof() -> None:
    assert compared("t", CONTENT, Counter([4, 3, 2, 1]), rejected=1).holds


@pytest.mark.parametrize(
    ("rows", "rejected", "what"),
    [
        ([1, 2, 3], 1, "missing"),
        ([1, 2, 3, 4, 4], 1, "twice"),
        ([1, 2, 3, 4, 9], 1, "unknown"),
        ([1, 2, 3, 4], 0, "rejected"),
        ([1, 2, 3, 4], 2, "rejected"),
    ],
)
def test_a_wrong_count_is_no_proof(rows: list[int], rejected: int, what: str) -> None:
    proof = compared("t", CONTENT, Counter(rows), rejected=rejected)
    assert not proof.holds
    assert proof.lines()[-1].strip() == "FAILS"
    if what != "rejected":
        assert getattr(proof, what) == 1


def test_a_record_is_readable_when_it_parses() -> None:
    assert readable_id(b'{"id": 7, "celsius": 21}') == 7
    for broken in (b"", b'{"id": 7, "cel', b"[7]", b'{"id": 7, "celsius": "warm"}', None):
        assert readable_id(broken) is None


def test_the_fleet_writes_some_malformed_and_some_late_records() -> None:
    fleet = Fleet("", "t", devices=10)
    records = [fleet._signal(number) for number in range(5000)]
    readable = [json.loads(value) for _, value in records if readable_id(value) is not None]
    malformed = len(records) - len(readable)
    assert 5 <= malformed <= 50
    assert len({record["device"] for record in readable}) == 10
    assert [record["id"] for record in readable] == sorted(record["id"] for record in readable)
