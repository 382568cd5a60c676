"""Which crashes a pipeline's tables have."""

from __future__ import annotations

from itertools import islice

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
    is_postgres=False,
)
RICH = TableFacts(
    "minutes",
    "postgres",
    "update",
    is_stateful=True,
    has_late=True,
    has_python=True,
    is_postgres=True,
)


def pairs(cells: list[Cell], table: str) -> set[tuple[Point, Kind]]:
    return {(cell.point, cell.kind) for cell in cells if cell.table == table}


def test_a_table_has_the_cells_that_can_happen_to_it() -> None:
    cells = cells_of([PLAIN, RICH])
    always = {Point.OFFSETS, Point.WRITE, Point.BEFORE_COMMIT, Point.COMMIT}
    assert pairs(cells, "copies") == {(point, Kind.DRIVER) for point in always}
    assert {point for point, kind in pairs(cells, "minutes") if kind is Kind.DRIVER} == set(Point)
    for kind in (Kind.WORKER, Kind.CONNECTION):
        found = {point for point, other in pairs(cells, "minutes") if other is kind}
        assert found == {Point.OFFSETS, Point.WRITE}


def test_a_covering_subset_has_every_point_and_every_kind_of_every_table() -> None:
    cells = cells_of([PLAIN, RICH])
    chosen = covering(cells, seed=1)
    assert len(chosen) < len(cells)
    assert {cell.point for cell in chosen} == set(Point)
    assert {(c.table, c.kind) for c in chosen} == {(c.table, c.kind) for c in cells}


def test_a_seed_repeats_the_choice() -> None:
    cells = cells_of([PLAIN, RICH])
    draws = [list(islice(random_cells(cells, seed), 20)) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
