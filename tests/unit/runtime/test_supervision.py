"""Which failures are worth a restart, and how many."""

from __future__ import annotations

import pytest

from headwater.runtime.supervision import Failure, Supervisor, incurable


@pytest.mark.parametrize(
    "text",
    [
        "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012",
        "org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN] no. SQLSTATE: 42703",
        "UnknownTopicOrPartitionException: This server does not host this topic-partition.",
        "headwater.errors.systems.KeyNotUnique: KEY_NOT_UNIQUE: table 't': batch 4 has several",
        "headwater.errors.systems.DatabaseRefused: DATABASE_REFUSED: table 't': the database",
        'Traceback (most recent call last):\n  File "app.py", line 3\nZeroDivisionError: division',
    ],
)
def test_what_fails_again_is_not_started_again(text: str) -> None:
    assert incurable([text])


@pytest.mark.parametrize(
    "text",
    [
        "java.net.ConnectException: Connection refused",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
        "headwater.errors.systems.DatabaseUnreachable: DATABASE_UNREACHABLE: table 't': the",
        'Traceback (most recent call last):\n  File "app.py", line 3\nConnectionRefusedError: no',
        "java.io.IOException: No space left on device",
        "org.apache.spark.sql.streaming.StreamingQueryException: [FOREACH_BATCH]"
        "\nTraceback (most recent call last):\npy4j.protocol.Py4JJavaError: An error occurred"
        "\norg.apache.kafka.common.errors.TimeoutException: Topic t not present in metadata",
        "app.py:12: QUERY_FAILED: table 't' stopped\n  found  java.net.ConnectException: refused",
    ],
)
def test_what_may_pass_is(text: str) -> None:
    assert incurable([text]) is None


def test_waits_grow_and_the_budget_ends_until_a_batch_is_committed() -> None:
    supervisor = Supervisor(budget=3)

    def wait(batch: int | None) -> float | None:
        return supervisor.wait_s(
            Failure("t", ("Connection refused",), batch), ends_by_itself=False
        )[0]

    assert [wait(None), wait(None), wait(None), wait(None)] == [1, 2, 4, None]
    assert [wait(0), wait(0)] == [1, 2]
    assert wait(1) == 1
    gone = Failure("t", ("gone",), None)
    assert Supervisor(budget=0).wait_s(gone, ends_by_itself=False)[0] is None


def test_a_system_that_is_not_there_is_waited_for_without_end() -> None:
    text = "headwater.errors.systems.DatabaseUnreachable: DATABASE_UNREACHABLE: table 't': the"
    gone, supervisor = Failure("t", (text,), 7), Supervisor(budget=2)
    found = [supervisor.wait_s(gone, ends_by_itself=False) for _ in range(100)]
    assert [wait for wait, _ in found[:4]] == [1, 2, 4, 8]
    assert found[-1] == (60, "restart 100 until it is there (DATABASE_UNREACHABLE)")
    assert Supervisor(budget=0).wait_s(gone, ends_by_itself=False)[0] is None


def test_waiting_takes_nothing_from_the_budget() -> None:
    text = "headwater.errors.systems.BrokerUnreachable: BROKER_UNREACHABLE: no answer"
    supervisor = Supervisor(budget=2)
    for _ in range(9):
        supervisor.wait_s(Failure("t", (text,), 7), ends_by_itself=False)
    lost = Failure("t", ("java.io.IOException: reset",), 7)
    found = [supervisor.wait_s(lost, ends_by_itself=False)[0] for _ in range(3)]
    assert found == [1, 2, None]


def test_a_run_that_ends_by_itself_does_not_wait_without_end() -> None:
    text = "headwater.errors.systems.DatabaseUnreachable: DATABASE_UNREACHABLE: table 't': the"
    gone, supervisor = Failure("t", (text,), 7), Supervisor(budget=2)
    found = [supervisor.wait_s(gone, ends_by_itself=True) for _ in range(3)]
    assert [wait for wait, _ in found] == [1, 2, None]
