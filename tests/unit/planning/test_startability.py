"""Cores that queries hold for as long as they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater import Pipeline
from headwater.connectors import kafka
from headwater.definitions import Guarantee, OutputMode, Trigger
from headwater.errors import TriggerImpossible
from headwater.graph import resolve
from headwater.planning.startability import tables_that_hold_cores_leave_one_to_the_others
from headwater.runtime.specification import QuerySpec
from headwater.settings import Settings

CONTINUOUS, BATCHES = Trigger.continuous("1 second"), Trigger.default()


def check(cores: int, *triggers: Trigger, partitions: int = 1) -> None:
    app = Pipeline("app")
    app.source("rows", kafka(assign={"in": list(range(partitions))}))
    for number in range(len(triggers)):
        app.sql(f"t{number}", "select * from rows", into=kafka(f"out{number}"))
    graph = resolve(app.definitions())
    specs = [
        QuerySpec(table, kafka("out"), OutputMode.APPEND, trigger, Guarantee.AT_LEAST_ONCE)
        for table, trigger in zip(graph.tables.values(), triggers, strict=True)
    ]
    settings = Settings(Path("/project"), master=f"local[{cores}]")
    tables_that_hold_cores_leave_one_to_the_others(graph, settings, specs)


def test_a_core_is_left_or_the_plan_is_refused() -> None:
    check(2, CONTINUOUS, BATCHES)
    check(2, CONTINUOUS, CONTINUOUS)
    check(2, CONTINUOUS, partitions=2)
    check(1, BATCHES, BATCHES)
    with pytest.raises(TriggerImpossible, match="the other tables need one"):
        check(2, CONTINUOUS, BATCHES, partitions=2)
    with pytest.raises(TriggerImpossible, match="t0 2, t1 2"):
        check(3, CONTINUOUS, CONTINUOUS, partitions=2)
