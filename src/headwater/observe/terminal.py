"""The live view of a running pipeline on a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headwater.events import (
    AdviceGiven,
    Event,
    GapsFound,
    LookupReloaded,
    ModelPublished,
    ModelRefused,
    QueryRestarting,
)
from headwater.observe.board import Board, TableFigures
from headwater.observe.lines import clock, event_line, has_watermark, rate

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_REDRAWS_PER_S = 4
# Narrow headings: the view of a table with a name of 14 letters fits a terminal of 80 columns.
_COLUMNS = (
    "table",
    "batch",
    "rows",
    "rows/s\nin",
    "rows/s\ndone",
    "water-\nmark",
    "state\nrows",
    "Kafka\nlag",
    "late",
    "re-\njected",
)


_SAID = (AdviceGiven, GapsFound, LookupReloaded, ModelPublished, ModelRefused, QueryRestarting)
"""What is said above the figures; they show the rest, and a failure is told by who drives."""


class LiveView:
    """One line per table, redrawn four times a second from the board.

    Events only change the board, so a fast query never waits for the terminal. `say` prints
    above the view.
    """

    def __init__(self, title: str, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._title = title
        self._began = time.monotonic()
        self._board = Board()
        self._console = console or Console(highlight=False)
        self._live = Live(
            console=self._console,
            get_renderable=self._drawn,
            refresh_per_second=_REDRAWS_PER_S,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def start(self) -> None:
        self._live.start()

    def report(self, event: Event) -> None:
        self._board.report(event)
        if isinstance(event, _SAID) and (line := event_line(event)) is not None:
            self.say(line)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._live.is_started:
            self._live.stop()

    def _drawn(self) -> RenderableType:
        seconds = time.monotonic() - self._began
        return drawn(self._board.figures, title=f"{self._title}  {seconds:.0f} s  Ctrl-C stops")


def drawn(figures: list[TableFigures], *, title: str) -> Table:
    """The view as a table of rich."""
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in _COLUMNS:
        is_first = name == "table"
        table.add_column(
            name,
            justify="left" if is_first else "right",
            no_wrap=True,
            vertical="bottom",
        )
    for row in figures:
        style = {"failed": "red", "forced": "red", "stopped": "dim"}.get(row.state)
        table.add_row(*cells(row), style=style)
    return table


def cells(row: TableFigures) -> list[str]:
    """The texts of one line, in the order of the columns; the colour tells that it stopped."""
    last = row.last
    is_usual = row.state in ("running", "stopped")
    name = row.table if is_usual else f"{row.table} {row.state}"
    batch = "" if row.last_batch is None else str(row.last_batch)
    if last is None:
        return [name, batch, *[""] * (len(_COLUMNS) - 2)]
    return [
        name,
        batch,
        f"{row.rows:,}",
        rate(last.input_rows_per_s),
        rate(last.processed_rows_per_s),
        clock(last.watermark) if has_watermark(last) else "-",
        "-" if last.state_rows is None else f"{last.state_rows:,}",
        "-" if last.kafka_lag is None else f"{last.kafka_lag:,}",
        f"{row.late:,}",
        f"{row.rejected:,}",
    ]
