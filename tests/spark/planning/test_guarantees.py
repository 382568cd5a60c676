"""Each condition of exactly-once, held and broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater import Pipeline
from headwater.connectors import delta, foreach, foreach_batch, kafka, memory, rate, redis, socket
from headwater.definitions import Guarantee
from headwater.errors import GuaranteeImpossible, KeyUnknown, ModeImpossible, NoModeFits
from headwater.settings import Settings

ROWS = memory(rows=[(1,), (2,)])


def plan_of(tmp_path: Path, source: Any, function: Any, **arguments: Any) -> Any:
    app = Pipeline("app", settings=Settings(folder=tmp_path, master="local[2]"))
    schema = None if source.system in ("socket", "rate") else "value long"
    app.source("numbers", source, schema=schema)
    app.table(name="t", reads={"numbers": "numbers"}, **arguments)(function)
    return app.plan().tables["t"]


def same(numbers: Any) -> Any:
    return numbers.select("value")


def with_expression(text: str) -> Any:
    def function(numbers: Any) -> Any:
        return numbers.selectExpr("value", text)

    return function


def with_python(numbers: Any) -> Any:
    from pyspark.sql import functions as F

    draw = F.udf(lambda value: value, "long").asNondeterministic()
    return numbers.select(draw("value").alias("value"))


def summed(numbers: Any) -> Any:
    from pyspark.sql import functions as F

    return numbers.groupBy("value").agg(F.sum(F.lit(0.1)).alias("total"))


@pytest.mark.parametrize("source", [ROWS, rate(rows_per_batch=1)], ids=["memory", "rate"])
def test_replayable_deterministic_idempotent_is_exactly_once(
    source: Any, spark: Any, tmp_path: Path
) -> None:
    found = plan_of(tmp_path, source, same)
    assert found.query.guarantee is Guarantee.EXACTLY_ONCE
    assert not found.query.is_async_progress
    assert "transaction ids" in found.decisions.guarantee.condition


def test_hashes_are_exactly_once_by_their_key_and_need_one(spark: Any, tmp_path: Path) -> None:
    found = plan_of(tmp_path, ROWS, same, into=redis("t"), key="value")
    assert found.query.guarantee is Guarantee.EXACTLY_ONCE
    with pytest.raises(NoModeFits, match=r"key=\[…\]"):
        plan_of(tmp_path, ROWS, same, into=redis("t"))
    with pytest.raises(ModeImpossible, match="needs a key"):
        plan_of(tmp_path, ROWS, same, into=redis("t"), mode="append")
    with pytest.raises(KeyUnknown, match="valeu"):
        plan_of(tmp_path, ROWS, same, into=redis("t"), key="valeu")


def test_tasks_that_run_twice_at_once_break_what_is_told_by_comparison(
    spark: Any, tmp_path: Path
) -> None:
    session = spark._jsparkSession.sessionState().conf()
    session.setConfString("spark.speculation", "true")
    try:
        found = plan_of(tmp_path, ROWS, same, into=kafka("out"))
        assert found.query.guarantee is Guarantee.AT_LEAST_ONCE
        assert "spark.speculation" in found.decisions.guarantee.reasons[0]
        assert plan_of(tmp_path, ROWS, same).query.guarantee is Guarantee.EXACTLY_ONCE
    finally:
        session.unsetConf("spark.speculation")


@pytest.mark.parametrize(
    ("source", "function", "arguments", "condition"),
    [
        (socket("localhost", 9), same, {}, "source numbers: socket localhost:9"),
        (ROWS, with_expression("rand()"), {}, "rand()"),
        (ROWS, with_expression("uuid() AS u"), {}, "uuid()"),
        (ROWS, with_python, {}, "declared non-deterministic"),
        (ROWS, same, {"into": foreach(print)}, "sink foreach print"),
        (ROWS, same, {"into": foreach_batch(lambda f, b: None)}, "sink foreach_batch"),
        (ROWS, same, {"into": memory()}, "sink memory"),
        (ROWS, same, {"into": kafka()}, "only rows name the topic"),
        (
            ROWS,
            same,
            {"into": kafka("out"), "guarantee": "at_least_once", "trigger": "once"},
            "ask",
        ),
        (ROWS, summed, {"into": kafka("out"), "mode": "update", "unbounded_state": True}, "sum()"),
    ],
    ids=[
        "socket",
        "rand",
        "uuid",
        "python",
        "foreach",
        "foreach_batch",
        "memory",
        "kafka",
        "asked",
        "order",
    ],
)
def test_a_condition_that_fails_is_named(
    source: Any, function: Any, arguments: Any, condition: str, spark: Any, tmp_path: Path
) -> None:
    found = plan_of(tmp_path, source, function, **arguments)
    assert found.query.guarantee is Guarantee.AT_LEAST_ONCE
    assert len(found.decisions.guarantee.reasons) == 1
    assert condition in found.decisions.guarantee.reasons[0]
    assert not found.decisions.guarantee.condition


@pytest.mark.parametrize(
    ("key", "guarantee"),
    [(("value", "part"), Guarantee.EXACTLY_ONCE), (("value",), Guarantee.AT_LEAST_ONCE)],
    ids=["all of the groups", "some of them"],
)
def test_sums_of_floats_need_a_key_that_tells_a_batch_apart(
    key: tuple[str, ...], guarantee: Guarantee, spark: Any, tmp_path: Path
) -> None:
    def by_part(numbers: Any) -> Any:
        from pyspark.sql import functions as F

        part = (numbers.value % 2).alias("part")
        return numbers.groupBy("value", part).agg(F.sum(F.lit(0.1)).alias("total"))

    found = plan_of(
        tmp_path, ROWS, by_part, into=kafka("out"), mode="update", key=key, unbounded_state=True
    )
    assert found.query.guarantee is guarantee


def test_all_failing_conditions_are_named(spark: Any, tmp_path: Path) -> None:
    source, function = socket("localhost", 9), with_expression("rand()")
    found = plan_of(tmp_path, source, function, into=foreach(print))
    assert len(found.decisions.guarantee.reasons) == 3


def test_exactly_once_asked_for_in_vain_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(GuaranteeImpossible) as refusal:
        plan_of(tmp_path, ROWS, with_expression("rand()"), guarantee="exactly_once")
    assert "rand()" in str(refusal.value.found)


def test_at_least_once_turns_asynchronous_progress_on(spark: Any, tmp_path: Path) -> None:
    found = plan_of(tmp_path, ROWS, same, into=kafka("out"), guarantee="at_least_once")
    assert found.query.is_async_progress
    assert "asynchronous progress is on" in found.decisions.notes[-1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"into": delta("out")}, "into delta table at out"),
        ({"into": kafka("out"), "trigger": "once"}, "trigger once"),
    ],
    ids=["sink", "trigger"],
)
def test_asynchronous_progress_that_cannot_be_says_why(
    arguments: Any, why: str, spark: Any, tmp_path: Path
) -> None:
    found = plan_of(tmp_path, ROWS, same, guarantee="at_least_once", **arguments)
    assert not found.query.is_async_progress
    assert why in found.decisions.notes[-1]


def test_the_current_time_is_the_same_when_a_batch_runs_again(spark: Any, tmp_path: Path) -> None:
    found = plan_of(tmp_path, ROWS, with_expression("current_timestamp() AS now"))
    assert found.query.guarantee is Guarantee.EXACTLY_ONCE
    seen: list[Any] = []
    run_batch(found.decisions.frame, seen, tmp_path / "checkpoint")
    for log in (tmp_path / "checkpoint" / "commits").iterdir():
        log.unlink()
    run_batch(found.decisions.frame, seen, tmp_path / "checkpoint")
    assert len(seen) == 2
    assert seen[0] == seen[1]


def run_batch(frame: Any, seen: list[Any], checkpoint: Path) -> None:
    def keep(batch: Any, number: int) -> None:
        seen.append(batch.collect())

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(300)
