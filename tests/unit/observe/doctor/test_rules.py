"""Every rule on batches that show its condition, and on the same batches without it."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from headwater.events import BatchCompleted, LateCount
from headwater.observe.doctor import rules
from headwater.observe.doctor.cases import Case, Measured, StoredFiles
from headwater.observe.doctor.rules import Advice, advice
from headwater.runtime.session import CHANGELOG

START = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
MEGABYTE = 1024 * 1024


def batch(number: int, **facts: Any) -> BatchCompleted:
    """Of a healthy table: every second a batch of 300 ms, the watermark in step."""
    at = START + dt.timedelta(seconds=number)
    given: dict[str, Any] = {
        "table": "minutes",
        "batch": number,
        "at": at.isoformat(),
        "input_rows": 5000,
        "input_rows_per_s": 5000.0,
        "processed_rows_per_s": 16_000.0,
        "duration_ms": 300,
        "watermark": (at - dt.timedelta(seconds=10)).isoformat(),
        "state_rows": 900 + number % 7,
        "state_bytes": 400_000,
        "state_partitions": 2,
        "state_commit_ms": 30,
        "late": LateCount(5000),
        "kafka_lag": 100,
        "kafka_lags": {"signals:0": 50, "signals:1": 50},
        "source_rows": {"KafkaV2[Subscribe[signals]]": 5000},
        "latency_max_ms": 900,
        "durations_ms": {
            "triggerExecution": 300,
            "addBatch": 200,
            "queryPlanning": 30,
            "walCommit": 20,
            "commitOffsets": 20,
        },
        **facts,
    }
    return BatchCompleted(**given)


SIGNALS = {
    "name": "signals",
    "kind": "source",
    "system": "kafka",
    "reads": [],
    "watermark": "10 seconds",
    "limit": None,
}
NODE = {
    "name": "minutes",
    "kind": "table",
    "reads": ["signals"],
    "system": "delta",
    "trigger": "processing time 1 second",
    "place": {"kind": "delta", "path": "tables/minutes"},
    "python": [],
}


def case(*batches: BatchCompleted, sources: Any = (SIGNALS,), **node: Any) -> Case:
    table = {**NODE, "reads": [source["name"] for source in sources], **node}
    about = {"cores": 2, "nodes": [*sources, table]}
    return Case("minutes", batches, table, about)


def run(count: int = 20, **facts: Any) -> list[BatchCompleted]:
    return [batch(number, **facts) for number in range(count)]


HEALTHY = case(*run(60))
NO_WATERMARK = {**SIGNALS, "watermark": None}
STILL = "2026-01-01T11:00:00.000Z"


def growing_lag(per_batch: int) -> list[BatchCompleted]:
    return [batch(n, kafka_lag=1000 + n * per_batch) for n in range(20)]


def growing_state(per_batch: int) -> list[BatchCompleted]:
    return [
        batch(n, state_rows=1000 + n * per_batch, state_bytes=MEGABYTE * (1 + n), watermark=None)
        for n in range(10)
    ]


def dense(**facts: Any) -> list[BatchCompleted]:
    """Batches that follow each other without a pause."""
    step = dt.timedelta(milliseconds=facts.get("duration_ms", 300))
    return [replace(batch(n, **facts), at=(START + n * step).isoformat()) for n in range(20)]


PLANNING = {"triggerExecution": 300, "queryPlanning": 180, "addBatch": 60}
LOGGING = {"triggerExecution": 300, "walCommit": 90, "commitOffsets": 90, "addBatch": 60}
TWO = {"a": 4000, "b": 0}
SKEW = {"signals:0": 90_000, "signals:1": 10, "signals:2": 12, "signals:3": 9}
KAFKA_TO_KAFKA = {"system": "kafka", "trigger": "default"}

CONDITIONS = {
    "too_many_partitions": case(*run(10, state_partitions=200)),
    "state_commits_dominate": case(*run(10, state_commit_ms=150)),
    "backlog_grows": case(*growing_lag(5000)),
    "batch_longer_than_trigger": case(*run(10, duration_ms=1500)),
    "planning_dominates": case(*dense(durations_ms=PLANNING)),
    "log_writes_dominate": case(*dense(durations_ms=LOGGING)),
    "watermark_held_back": case(*run(10, watermark=STILL, source_rows=TWO)),
    "watermark_stuck": case(*run(12, watermark=STILL)),
    "delay_too_long": replace(HEALTHY, lateness=(Measured("signals", 100_000, "1 hour", 2000),)),
    "delay_too_short": replace(
        case(*run(10, late=LateCount(5000, late=40))),
        lateness=(Measured("signals", 100_000, "10 seconds", 90_000),),
    ),
    "state_grows": case(*growing_state(500), sources=(NO_WATERMARK,)),
    "few_kafka_partitions": case(*dense(kafka_lag=90_000, kafka_lags={"signals:0": 90_000})),
    "skewed_partitions": case(*run(10, kafka_lags=SKEW)),
    "many_small_files": replace(HEALTHY, files=StoredFiles(5000, 5000 * 9000)),
    "python_dominates": case(
        *dense(duration_ms=2000, processed_rows_per_s=4000.0, durations_ms={"addBatch": 1900}),
        python=["clean"],
        trigger="default",
    ),
    "faster_trigger_possible": case(*run(10, state_rows=None), **KAFKA_TO_KAFKA),
}

NEARLY = {
    "too_many_partitions": case(*run(10, state_partitions=8)),
    "state_commits_dominate": case(*run(10, state_commit_ms=80)),
    "backlog_grows": case(*growing_lag(0)),
    "batch_longer_than_trigger": case(*run(10, duration_ms=1350)),
    "planning_dominates": case(*run(20, durations_ms=PLANNING)),
    "log_writes_dominate": case(*dense(durations_ms=LOGGING), is_async_progress=True),
    "watermark_held_back": case(*run(10, source_rows=TWO)),
    "watermark_stuck": case(*run(12)),
    "delay_too_long": replace(HEALTHY, lateness=(Measured("signals", 100_000, "10 seconds", 500),)),
    "delay_too_short": replace(
        case(*run(10, late=LateCount(5000, late=10))),
        lateness=(Measured("signals", 100_000, "10 seconds", 90_000),),
    ),
    "state_grows": case(*growing_state(0), sources=(NO_WATERMARK,)),
    "few_kafka_partitions": case(*dense(kafka_lag=10, kafka_lags={"signals:0": 10})),
    "skewed_partitions": case(*run(10, kafka_lags=dict.fromkeys(SKEW, 90_000))),
    "many_small_files": replace(HEALTHY, files=StoredFiles(5000, 5000 * 8 * MEGABYTE)),
    "python_dominates": case(
        *run(20, duration_ms=700, processed_rows_per_s=4000.0, durations_ms={"addBatch": 690}),
        python=["clean"],
    ),
    "faster_trigger_possible": case(*run(10), **KAFKA_TO_KAFKA),
}


def said(found: Case, rule: str) -> Advice | None:
    one: Advice | None = getattr(rules, rule)(found)
    return one


def test_every_rule_has_a_condition_here() -> None:
    names = {rule.__name__ for rule in rules.RULES}
    assert names == set(CONDITIONS) == set(NEARLY)


@pytest.mark.parametrize("rule", sorted(CONDITIONS))
def test_a_condition_is_found_with_evidence_gain_and_setting(rule: str) -> None:
    found = said(CONDITIONS[rule], rule)
    assert found is not None
    assert (found.rule, found.table) == (rule, "minutes")
    assert any(any(character.isdigit() for character in text) for text in found.evidence)
    assert found.gain
    assert any(sign in found.setting for sign in "=`_")


@pytest.mark.parametrize("rule", sorted(NEARLY))
def test_what_is_nearly_the_condition_raises_no_alarm(rule: str) -> None:
    assert said(NEARLY[rule], rule) is None


def test_a_healthy_table_gets_no_advice() -> None:
    assert advice([HEALTHY]) == []


@pytest.mark.parametrize("rule", sorted(CONDITIONS))
def test_a_table_without_batches_gets_no_advice(rule: str) -> None:
    assert advice([replace(CONDITIONS[rule], batches=(), lateness=(), files=None)]) == []


def test_a_watermark_held_back_is_not_called_stuck_as_well() -> None:
    found = case(*run(12, watermark=STILL, source_rows=TWO))
    assert [one.rule for one in advice([found])] == ["watermark_held_back"]


@pytest.mark.parametrize("phases", [PLANNING, LOGGING])
def test_one_table_gets_one_advice_on_its_trigger(phases: dict[str, int]) -> None:
    slow = {name: 5 * ms for name, ms in phases.items()}
    [found] = advice([case(*dense(duration_ms=1500, durations_ms=slow))])
    assert found.rule == "batch_longer_than_trigger"
    assert found.setting == 'trigger="6 seconds"'
    assert "60% of it is planning and Spark's log" in found.evidence[1]


def test_a_state_processor_cannot_become_a_built_in_function() -> None:
    slow = CONDITIONS["python_dominates"]
    found = rules.python_dominates(
        replace(slow, node={**slow.node, "python": ["transformWithStateUDF"]})
    )
    assert found is not None
    assert found.setting == 'trigger="6 seconds"'


@pytest.mark.parametrize(
    ("state_rows", "node", "setting"),
    [
        (None, {"system": "kafka"}, 'guarantee="at_least_once"  (asynchronous progress'),
        (None, {"system": "kafka", "guarantee": "at_least_once"}, 'guarantee="at_least_once"'),
        (None, {"system": "kafka", "trigger": "available now"}, 'trigger="2 seconds"'),
        (None, {"system": "delta"}, 'trigger="2 seconds"'),
        (900, {"system": "kafka"}, 'trigger="2 seconds"'),
    ],
)
def test_asynchronous_progress_is_advised_where_spark_can_do_it(
    state_rows: int | None, node: dict[str, str], setting: str
) -> None:
    found = case(*dense(durations_ms=LOGGING, state_rows=state_rows), **node)
    said = rules.log_writes_dominate(found)
    assert said is not None
    assert said.setting.startswith(setting)
    done = replace(found, node={**found.node, "is_async_progress": True})
    assert rules.log_writes_dominate(done) is None


@pytest.mark.parametrize(
    ("has_changelog", "setting"),
    [
        (False, f'"{CHANGELOG}" = "true"  (in headwater.toml, [profile.cluster.spark])'),
        (True, 'trigger="2 seconds"'),
    ],
)
def test_of_state_commits_the_one_setting_that_is_left_is_told(
    has_changelog: bool, setting: str
) -> None:
    found = CONDITIONS["state_commits_dominate"]
    about = {**found.about, "profile": "cluster", "has_changelog": has_changelog}
    said = rules.state_commits_dominate(replace(found, about=about))
    assert said is not None
    assert said.setting == setting
    assert ("asynchronous checkpointing" in said.gain) == has_changelog


def test_state_that_nothing_removes_is_told_in_ten_batches_whatever_the_watermark() -> None:
    ten = run(10)[2:]
    growing = [replace(b, state_rows=1000 + 500 * n) for n, b in enumerate(ten)]
    assert rules.state_grows(case(*growing)) is None
    assert rules.state_grows(case(*growing, unbounded_state=True)) is not None


def test_state_of_windows_may_fill_up_first() -> None:
    batches = [batch(n, state_rows=1000 + 500 * n) for n in range(30)]
    assert rules.state_grows(case(*batches)) is None
    later = [
        replace(b, watermark=(START + dt.timedelta(minutes=n)).isoformat())
        for n, b in enumerate(batches)
    ]
    assert rules.state_grows(case(*later)) is not None


def test_the_day_on_which_state_does_not_fit_is_named() -> None:
    found = replace(
        case(*growing_state(500), sources=(NO_WATERMARK,)), memory_bytes=86_400 * MEGABYTE
    )
    said = rules.state_grows(found)
    assert said is not None
    assert "2026-01-02" in said.evidence[1]


def test_the_backlog_of_the_next_hour_is_told() -> None:
    said = rules.backlog_grows(case(*growing_lag(5000)))
    assert said is not None
    assert "grows by 5,000 records per second, to 18,096,000 in an hour" in said.evidence[1]


def test_hints_come_after_advice() -> None:
    both = case(*run(10, state_rows=None, duration_ms=1500), **{**KAFKA_TO_KAFKA})
    slow = replace(both, node={**both.node, "trigger": "processing time 1 second"})
    assert [one.is_hint for one in advice([slow])] == [False, True]
