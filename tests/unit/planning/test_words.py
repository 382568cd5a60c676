"""What needs no Spark: words, addresses, checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.connectors import console, kafka
from headwater.definitions import Trigger
from headwater.planning.analysis import _above_streams, sentence
from headwater.planning.checkpoints import CheckpointState
from headwater.planning.guarantees import trigger_problems
from headwater.planning.inputs import address_of, with_placeholders
from headwater.settings import Settings


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. "
            "This output mode is not supported for streaming aggregations without watermark on "
            "streaming DataFrames/DataSets. SQLSTATE: 42KDE;\nAggregate [a]",
            "not for streaming aggregations without watermark",
        ),
        (
            "[X] Invalid streaming output mode: complete. This output mode is not supported for "
            "no streaming aggregations on streaming DataFrames/DataSets. SQLSTATE: 42KDE",
            "not without an aggregation",
        ),
        (
            "Continuous processing does not support Aggregate operations.;\nAggregate",
            "continuous processing does not support Aggregate operations",
        ),
    ],
    ids=["no watermark", "no aggregation", "continuous"],
)
def test_sparks_message_becomes_a_sentence(message: str, expected: str) -> None:
    assert sentence(message) == expected


PLAN = """\
== Physical Plan ==
*(2) Project [a]
+- *(2) BroadcastHashJoin [k], [k], Inner
   :- *(2) Filter isnotnull(k)
   :  +- StreamingRelation kafka, [k]
   +- BroadcastExchange HashedRelation
      +- *(1) Sort [k]
         +- LocalTableScan [k]
"""


def test_only_operators_that_a_stream_passes_count() -> None:
    assert _above_streams(PLAN) == ["Project", "BroadcastHashJoin", "Filter"]


def settings(tmp_path: Path, **options: str) -> Settings:
    return Settings(folder=tmp_path, profile="cluster", connections={"kafka": options})


def test_an_address_shows_its_origin_and_no_secret(tmp_path: Path) -> None:
    given = settings(
        tmp_path, bootstrap_servers="broker:9092", username="me", password="env:SECRET"
    )
    address = address_of("source s", kafka("signals"), given)
    assert address.address == "bootstrap_servers=broker:9092, username=me"
    assert address.origin == "headwater.toml [profile.cluster.connections.kafka]"


def test_a_user_within_a_url_is_left_out(tmp_path: Path) -> None:
    given = settings(tmp_path, url="jdbc:db://me:word@host/x")
    assert address_of("sink", kafka("s"), given).address == "url=jdbc:db://…@host/x"


def test_an_unknown_connection_is_told_and_stood_in_for(tmp_path: Path) -> None:
    bare = Settings(folder=tmp_path)
    assert "not known" in str(address_of("source s", kafka("signals"), bare).problem)
    stood_in = with_placeholders(bare, [kafka("signals"), console()])
    assert list(stood_in.connections) == ["kafka"]


@pytest.mark.parametrize(
    ("planned", "committed", "expected"),
    [
        (None, None, "new"),
        (0, None, "resumes with batch 0, which did not end"),
        (3, 3, "resumes after batch 3"),
        (4, 3, "resumes after batch 3; batch 4 did not end and runs again"),
    ],
)
def test_a_checkpoint_says_how_far_it_came(
    planned: int | None, committed: int | None, expected: str
) -> None:
    assert str(CheckpointState("p", planned, committed)) == expected


@pytest.mark.parametrize("trigger", ["continuous 1 second", "real time 5 seconds"])
def test_triggers_that_log_late_write_rows_again(trigger: str) -> None:
    (problem,) = trigger_problems(Trigger.parse(trigger))
    assert "written again" in problem
    assert trigger_problems(Trigger.default()) == []
