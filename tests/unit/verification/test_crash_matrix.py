"""Which crashes a pipeline's tables have."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, islice

import pytest

from headwater.cli.verify import KINDS
from headwater.verification.crash_matrix import (
    Cell,
    Kind,
    Point,
    TableFacts,
    cells_of,
    covering,
    random_cells,
)

PLAIN = TableFacts(
    "copies",
    "parquet",
    "append",
    is_stateful=False,
    has_late=False,
    has_python=False,
    ports=(),
)
RICH = TableFacts(
    "minutes",
    "postgres",
    "update",
    is_stateful=True,
    has_late=True,
    has_python=True,
    ports=(5432,),
)


def pairs(cells: list[Cell], table: str) -> set[tuple[Point, Kind]]:
    return {(cell.point, cell.kind) for cell in cells if cell.table == table}


def test_a_table_has_the_cells_that_can_happen_to_it() -> None:
    cells = cells_of([PLAIN, RICH], has_executors=False)
    always = {Point.OFFSETS, Point.WRITE, Point.BEFORE_COMMIT, Point.COMMIT}
    assert pairs(cells, "copies") == {(point, Kind.DRIVER) for point in always}
    assert {point for point, kind in pairs(cells, "minutes") if kind is Kind.DRIVER} == set(Point)
    for kind in (Kind.WORKER, Kind.CONNECTION):
        found = {point for point, other in pairs(cells, "minutes") if other is kind}
        assert found == {Point.OFFSETS, Point.WRITE}


def test_executors_are_killed_on_a_cluster() -> None:
    cells = cells_of([PLAIN, RICH], has_executors=True)
    found = {point for point, kind in pairs(cells, "minutes") if kind is Kind.EXECUTOR}
    assert found == {Point.OFFSETS, Point.WRITE, Point.STATE, Point.LATE}
    found = {point for point, kind in pairs(cells, "copies") if kind is Kind.EXECUTOR}
    assert found == {Point.OFFSETS, Point.WRITE}


@pytest.mark.parametrize("seed", range(5))
def test_a_covering_subset_has_every_pair_of_values(seed: int) -> None:
    other = replace(RICH, name="totals", mode="complete", has_late=False)
    cells = cells_of([PLAIN, RICH, other], has_executors=False)
    chosen = covering(cells, seed)
    assert len(chosen) < len(cells)

    def seen(some: list[Cell]) -> set[tuple[object, ...]]:
        names = combinations(("sink", "mode", "point", "kind"), 2)
        return {(a, b, getattr(c, a), getattr(c, b)) for a, b in names for c in some}

    assert seen(chosen) == seen(cells)


def test_a_seed_repeats_the_choice() -> None:
    cells = cells_of([PLAIN, RICH], has_executors=False)
    draws = [list(islice(random_cells(cells, seed), 20)) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_the_command_names_every_kind() -> None:
    assert list(KINDS) == [kind.value for kind in Kind]
