from headwater.events import (
    BatchCompleted,
    LateCount,
    PipelineStarted,
    QueryFailed,
    QueryStarted,
    QueryStopped,
    RejectedCaptured,
)
from headwater.observe.board import Board


def batch(number: int, rows: int = 10, dropped: int = 0, rejected: int = 0) -> BatchCompleted:
    return BatchCompleted(
        "raw",
        number,
        "2026-01-01T00:00:00.000Z",
        rows,
        1.0,
        2.0,
        100,
        late=LateCount(10, late=dropped),
        rejected={"signals": rejected},
    )


def test_a_started_pipeline_lists_its_tables() -> None:
    board = Board()
    board.report(PipelineStarted("iot", ("raw", "minutes")))
    assert [(row.table, row.state) for row in board.figures] == [
        ("raw", "starting"),
        ("minutes", "starting"),
    ]


def test_batches_add_up() -> None:
    board = Board()
    for event in (batch(3), batch(4, rows=5, dropped=2, rejected=1), batch(5, rejected=1)):
        board.report(event)
    [row] = board.figures
    assert (row.last_batch, row.batches, row.rows) == (5, 3, 25)
    assert (row.late, row.rejected) == (2, 2)


def test_a_resumed_table_knows_its_last_batch() -> None:
    board = Board()
    board.report(QueryStarted("raw", "q", "r", 7))
    assert [(row.state, row.last_batch) for row in board.figures] == [("running", 7)]


def test_an_end_is_a_state() -> None:
    board = Board()
    board.report(QueryStopped("a", 1))
    board.report(QueryStopped("b", 1, was_forced=True))
    board.report(QueryFailed("c", None, "app.py:1: no"))
    assert [row.state for row in board.figures] == ["stopped", "forced", "failed"]


def test_captured_records_are_counted_by_source() -> None:
    board = Board()
    board.report(RejectedCaptured("signals", "raw", 1, 2))
    board.report(RejectedCaptured("signals", "raw", 2, 3))
    assert board.captured == {"signals": 5}
