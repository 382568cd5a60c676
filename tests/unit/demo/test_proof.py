"""The proof of the demo can fail: each way of being wrong is seen."""

from collections import Counter

import pytest

from headwater.demo.proof import Alerts, Counted, TopicContent, compared, is_ahead, readable_id

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


@pytest.mark.parametrize(
    ("counted", "holds"),
    [(Counted(3, 1), True), (Counted(4, 0), True), (Counted(3, 0), False), (Counted(4, 1), False)],
)
def test_the_minutes_count_every_reading_once_or_keep_it_as_late(
    counted: Counted, *, holds: bool
) -> None:
    proof = compared("t", CONTENT, Counter([1, 2, 3, 4]), rejected=1, counted=counted)
    assert proof.holds is holds
    assert f"{counted.readings} readings counted, {counted.late} late" in "\n".join(proof.lines())


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ([7, 8, 8], "3 rows, 0 missing, 0 twice"),
        ([7, 8], "2 rows, 1 missing, 0 twice"),
        ([7, 7, 8, 8], "4 rows, 0 missing, 1 twice"),
    ],
)
def test_every_anomaly_of_the_topic_is_an_alert_once(stored: list[int], said: str) -> None:
    alerts = Alerts(Counter([7, 8, 8]), Counter(stored))
    proof = compared("t", CONTENT, Counter([1, 2, 3, 4]), rejected=1, alerts=alerts)
    assert proof.holds is (len(stored) == 3)
    assert f"alerts in PostgreSQL: {said}" in "\n".join(proof.lines())


def test_a_record_is_readable_when_it_parses() -> None:
    assert readable_id(b'{"id": 7, "celsius": 21}') == 7
    for broken in (b"", b'{"id": 7, "cel', b"[7]", b'{"id": 7, "celsius": "warm"}', None):
        assert readable_id(broken) is None


def test_a_record_that_was_sent_twice_is_there_once() -> None:
    content = TopicContent(records=4, ids=Counter([1, 2, 2]), malformed=0, ahead=1)
    assert content.twice == 1
    assert compared("t", content, Counter([1, 2]), rejected=1).holds
    assert not compared("t", content, Counter([1, 2, 2]), rejected=1).holds


def test_a_clock_is_ahead_of_the_broker() -> None:
    value = b'{"id": 7, "celsius": 21, "at": "2026-01-01T12:00:00.000Z"}'
    noon_ms = 1767268800000
    assert not is_ahead(value, noon_ms)
    assert is_ahead(value, noon_ms - 3_600_000)
