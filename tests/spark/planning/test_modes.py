"""Our verdict on mode x sink x kind of query is what Spark does when the query is started.

A Kafka topic as the sink is in tests/e2e/test_trigger_matrix.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.interface import WriteRequest
from headwater.definitions import OutputMode, PythonBody, Table, Trigger
from headwater.errors import ModeImpossible, NoModeFits, NotStreamable
from headwater.planning.analysis import facts_of
from headwater.planning.modes import choose_mode

KINDS = (
    "stateless",
    "aggregation",
    "aggregation with watermark",
    "sorted aggregation",
    "session window",
    "chained aggregation",
    "inner join",
    "outer join",
    "deduplication",
    "applyInPandasWithState",
    "transformWithState",
    "sort",
    "lookup join",
)
SINKS = ("parquet", "delta", "delta with key", "memory", "console", "foreach_batch", "foreach")
DEADLINE_S = 300

# Refusals that come late, in the first batch, depend on the kind of query or on the sink: every
# kind is run to its end into one sink, every sink is run with two kinds. The rest is started.
RUN_KINDS = ("stateless", "aggregation with watermark")
RUN_SINK = "foreach_batch"

# Spark's memory sink takes update mode and appends the changed rows to the old ones, so that the
# table is no result: we refuse what Spark accepts.
STRICTER = {("memory", OutputMode.UPDATE)}


# Every kind into one sink and every sink with these kinds; the other cells have the mark `matrix`.
COVERING_KINDS = ("stateless", "aggregation", "aggregation with watermark", "inner join")
CELLS = [
    pytest.param(
        kind,
        sink,
        mode,
        id=f"{kind}-{sink}-{mode.value}",
        marks=() if sink == RUN_SINK or kind in COVERING_KINDS else pytest.mark.matrix,
    )
    for kind in KINDS
    for sink in SINKS
    for mode in OutputMode
]


@pytest.mark.parametrize(("kind", "sink", "mode"), CELLS)
def test_a_mode_is_possible_where_spark_runs_it(
    kind: str, sink: str, mode: OutputMode, queries: Any, sink_cases: Any, tmp_path: Path
) -> None:
    case = sink_cases[sink]
    is_possible = verdict(queries[kind], case, mode) is None
    if (sink, mode) in STRICTER:
        assert not is_possible
        return
    runs = kind in RUN_KINDS or sink == RUN_SINK
    refusal = refused_by_spark(queries[kind], case, mode, tmp_path, runs=runs)
    assert is_possible == (refusal is None), refusal


def verdict(frame: Any, case: Any, mode: OutputMode) -> Exception | None:
    body = PythonBody(lambda: None, ())
    table = Table("t", body, key=case.key, mode=mode, into=case.connector)
    try:
        choose_mode(table, case.connector, Trigger.default(), frame, facts_of(frame))
    except (ModeImpossible, NoModeFits, NotStreamable) as refusal:
        return refusal
    return None


def refused_by_spark(
    frame: Any, case: Any, mode: OutputMode, at: Path, *, runs: bool = True
) -> str | None:
    """What Spark says when the query is started (and run to its end); None where it does it."""
    from pyspark.errors import PySparkException

    writer = case.writer(frame, at)
    if case.key and mode is OutputMode.UPDATE:
        request = WriteRequest("t", mode, case.key, None, at, str(at / "managed"))
        case.connector.prepare(frame.sparkSession, frame._jdf.schema().toDDL(), request)
        writer = case.connector.write_stream(frame, request)
    writer = writer.outputMode(mode.value).option("checkpointLocation", str(at / "checkpoint"))
    query = None
    try:
        query = writer.trigger(availableNow=True).start()
        assert not runs or query.awaitTermination(DEADLINE_S), "the query did not end"
    except PySparkException as refusal:
        return str(refusal)[:300]
    finally:
        if query is not None:
            query.stop()
    return None


def test_spark_itself_lets_a_memory_table_hold_old_and_new_rows(
    queries: Any, sink_cases: Any, tmp_path: Path
) -> None:
    case = sink_cases["memory"]
    assert refused_by_spark(queries["aggregation"], case, OutputMode.UPDATE, tmp_path) is None


def test_a_refused_mode_names_the_possible_ones(queries: Any, sink_cases: Any) -> None:
    problem = verdict(queries["aggregation"], sink_cases["delta"], OutputMode.APPEND)
    assert isinstance(problem, ModeImpossible)
    assert "without watermark" in str(problem.found)
    assert problem.expected == "mode complete"


def test_an_update_without_a_key_is_told_to_name_one(queries: Any, sink_cases: Any) -> None:
    problem = verdict(queries["aggregation"], sink_cases["delta"], OutputMode.UPDATE)
    assert isinstance(problem, ModeImpossible)
    assert "key" in str(problem.remedy)
