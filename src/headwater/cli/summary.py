"""How a run ended, in a few lines and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.cli.drive import Driver
from headwater.cli.exit_codes import ExitCode
from headwater.errors import HeadwaterError, LeaseLost

if TYPE_CHECKING:
    from headwater.runtime.running import RunningPipeline


def tell_end(started: RunningPipeline, driver: Driver, *, was_forced: bool) -> ExitCode:
    """Prints each table's last batch; the code says whether everything went well."""
    for figures in driver.board.figures:
        last = "no batch" if figures.last_batch is None else f"batch {figures.last_batch}"
        state = "stopped by force" if figures.state == "forced" else figures.state
        print(f"{figures.table}: {state} after {last}, {figures.rows:,} rows in this run")
    for figures in driver.board.figures:
        if figures.late:
            print(f"{figures.table}: {figures.late:,} late in this run, see headwater late")
    for source, rows in driver.board.captured.items():
        print(f"{source}: {rows:,} rejected in this run, see headwater show {source}__rejected")
    try:
        started.raise_failure()
    except HeadwaterError as problem:
        is_untold = all(figures.state != "failed" for figures in driver.board.figures)
        if is_untold or isinstance(problem, LeaseLost):
            driver.view.complain(str(problem))
        return ExitCode(problem.exit_code)
    if was_forced:
        print("Stopped by force: the deadline passed before the running batch had ended.")
        return ExitCode.FORCED
    return ExitCode.OK
