"""A running pipeline asked in SQL, and heard by a listener of the user's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from headwater import Pipeline
from headwater.connectors import memory, rate
from headwater.errors import SqlFailed, SqlTimeout, TooManyRows
from headwater.observe.datasets import table_data
from headwater.observe.live_sql import MOST_ROWS, Answer, answer
from headwater.observe.tables import running
from headwater.runtime import control
from headwater.runtime.running import RunningPipeline
from headwater.settings import Settings


class Heard(StreamingQueryListener):
    """Notes what Spark tells."""

    def __init__(self) -> None:
        self.started: list[str | None] = []
        self.batches: list[int] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        self.started.append(event.name)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.batches.append(event.progress.batchId)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


HEARD = Heard()
EVEN = MOST_ROWS + 10


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    """More rows than are copied, and a view that takes minutes to read."""
    settings = Settings(folder=tmp_path_factory.mktemp("asked"), master="local[2]")
    app = Pipeline("asked", settings=settings)
    app.source("ticks", rate(rows_per_batch=MOST_ROWS + 10, rows=2 * MOST_ROWS + 20))
    work = "sha2(repeat(value, 50000), 512)"
    app.view(name="slow")(lambda ticks: ticks.selectExpr(f"{work} AS value"))
    task = "java_method('org.apache.spark.TaskContext', 'getPartitionId')"
    app.view(name="tasks")(lambda ticks: ticks.selectExpr(f"{task} AS task"))
    app.view(name="even")(lambda ticks: ticks.where("value % 2 = 0"))
    app.table(name="asked_even", into=memory(), trigger="100 milliseconds")(lambda even: even)
    app.listen(HEARD)
    run = app.start()
    try:
        await_batch(run, 1)
        yield run
    finally:
        run.stop()


def await_batch(run: RunningPipeline, number: int) -> None:
    query, until = run["asked_even"], time.monotonic() + 60
    while (query.last_batch or 0) < number and query.is_active and time.monotonic() < until:
        query.await_termination(timeout_s=0.2)
    assert (query.last_batch or 0) >= number


def asked(run: RunningPipeline, question: str, **limits: Any) -> Answer:
    definitions = run._graph.definitions
    timeout_s = limits.get("timeout_s", 60.0)
    return answer(
        question,
        lambda name: table_data(definitions, run.settings, name, timeout_s=timeout_s),
        ["asked_even", "even", "slow", "tasks"],
        **limits,
    )


@pytest.mark.parametrize("table", ["asked_even", "even"])
def test_however_many_rows_there_are_a_plain_question_is_answered(
    run: RunningPipeline, table: str
) -> None:
    found = asked(run, f"SELECT count(*) AS n, max(value), min(timestamp) FROM {table}")
    assert found.rows[0][:2] == (EVEN, 2 * EVEN - 2)
    assert found.rows[0][2].isoformat() == "1970-01-01T00:00:00+00:00"
    some = asked(run, f"SELECT value, value FROM {table} WHERE value > 50 ORDER BY 1", rows=2)
    assert (some.columns, some.rows) == (("value", "value_1"), ((52, 52), (54, 54)))
    assert some.is_cut
    assert len(asked(run, f"SELECT * FROM {table} LIMIT 10").rows) == 10


def test_a_join_is_made_of_what_spark_answers_to_its_parts(run: RunningPipeline) -> None:
    few = "(SELECT value FROM even WHERE value < 100)"
    found = asked(run, f"SELECT count(*) FROM {few} a JOIN {few} b ON a.value = b.value")
    assert found.rows == ((50,),)
    with pytest.raises(TooManyRows):
        asked(run, f"SELECT count(*) FROM {few} a JOIN even b ON a.value = b.value")


def test_a_slow_question_is_ended_and_the_stream_goes_on(run: RunningPipeline) -> None:
    began = time.monotonic()
    with pytest.raises(SqlTimeout):
        asked(run, "SELECT max(value) FROM slow", timeout_s=2.0)
    assert time.monotonic() - began < 30
    await_batch(run, (run["asked_even"].last_batch or 0) + 2)
    assert asked(run, "SELECT count(*) FROM asked_even").rows == ((EVEN,),)


def test_a_question_leaves_half_of_the_cores_to_the_queries(run: RunningPipeline) -> None:
    assert asked(run, "SELECT count(DISTINCT task) FROM tasks").rows == ((1,),)


def test_a_mistake_is_told_to_who_asked_and_not_in_the_drivers_terminal(
    run: RunningPipeline, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SqlFailed) as problem:
        asked(run, "SELECT valu FROM asked_even")
    assert "Did you mean one of the following? [`value`, " in str(problem.value)
    assert "valu" not in capfd.readouterr().err


def test_the_driver_itself_refuses_what_is_not_plain(run: RunningPipeline) -> None:
    found = running(run.settings, run.name)
    assert found is not None
    limits = {"table": "even", "rows": 10, "timeout_s": 10.0}
    for question in ("DROP TABLE even", "SELECT repeat('x', 2000000000) FROM even"):
        told = control.ask(found.record, "select", question=question, **limits)
        assert told["code"] == "SQL_REFUSED"


def test_a_listener_of_the_users_own_hears_spark(run: RunningPipeline) -> None:
    assert HEARD.started == ["asked_even"]
    assert HEARD.batches[:2] == [0, 1]
