import io

from rich.console import Console

from headwater.events import BatchCompleted, LateCount, PipelineStarted
from headwater.observe.board import TableFigures
from headwater.observe.terminal import LiveView, cells, drawn

BATCH = BatchCompleted(
    "raw",
    12,
    "2026-01-01T00:00:00Z",
    1000,
    1000.0,
    4000.0,
    250,
    watermark="2026-01-01T12:03:04.000Z",
    state_rows=1234,
    late=LateCount(10, late=3),
    rejected={"signals": 2},
    kafka_lag=17,
)


def text_of(figures: list[TableFigures]) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(drawn(figures, title="iot"))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_a_table_shows_all_its_figures() -> None:
    figures = TableFigures("raw", state="running").after(BATCH)
    expected = "raw 12 1,000 1,000 4,000 12:03:04 1,234 17 3 2"
    assert " ".join(cells(figures)) == expected


def test_late_rows_have_a_column() -> None:
    text = text_of([TableFigures("raw").after(BATCH)])
    assert "late" in text
    assert " 3 " in text


def test_the_view_fits_eighty_columns() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(drawn([TableFigures("device_minutes", state="running").after(BATCH)], title="x"))
    text = str(console.file.getvalue())  # type: ignore[attr-defined]
    assert "…" not in text
    assert all(cell in text for cell in ("device_minutes", "12:03:04", "1,234"))


def test_a_table_before_its_first_batch_is_there() -> None:
    assert "starting" in text_of([TableFigures("raw")])


def test_the_view_draws_what_events_told() -> None:
    console = Console(file=io.StringIO(), width=140, force_terminal=True)
    view = LiveView("iot", console)
    view.start()
    view.report(PipelineStarted("iot", ("raw",)))
    view.report(BATCH)
    view.say("first rows of raw:")
    view.close()
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "first rows of raw:" in text
    assert "1,234" in text
