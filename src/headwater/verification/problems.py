"""What a verification found wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.testing.kept import Row
from headwater.testing.values import difference, shown
from headwater.verification.trials import Trial

_ROWS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """A law that does not hold for a table, with the rows that show it."""

    table: str
    law: str
    columns: tuple[str, ...] = ()
    missing: Sequence[Row] = ()
    extra: Sequence[Row] = ()
    trial: Trial | None = None
    expected: Sequence[Row] = ()
    """The whole table as the batch gives it."""
    is_end: bool = True
    """Whether it shows when every window is closed; False where it shows before."""
    is_exact: bool = True
    """Whether the table must be exactly the batch's rows."""
    python: tuple[str, ...] = ()
    """Python functions that the table's rows pass through."""

    @property
    def differing(self) -> list[str]:
        """The columns in which rows differ, where some columns do not."""
        if not self.missing or not self.extra:
            return []
        return [
            name
            for index, name in enumerate(self.columns)
            if any(
                difference([(r[index],) for r in self.missing], [(r[index],) for r in self.extra])
            )
        ]

    def lines(self) -> list[str]:
        told = [f"{self.table}: broken law: {self.law}"]
        if self.missing or self.extra:
            told.append(f"    {' | '.join(self.columns)}")
        told += [f"  - {' | '.join(map(shown, row))}" for row in self.missing[:_ROWS_SHOWN]]
        told += [f"  + {' | '.join(map(shown, row))}" for row in self.extra[:_ROWS_SHOWN]]
        left = max(0, len(self.missing) - _ROWS_SHOWN) + max(0, len(self.extra) - _ROWS_SHOWN)
        if left:
            told.append(f"    and {left} more rows")
        if self.differing:
            told.append(f"    differing: column {', '.join(self.differing)}")
        if self.python:
            told.append(f"    rows pass through Python: {', '.join(self.python)}")
        if self.trial is not None:
            told.append(f"    found with {self.trial.describe()} (seed {self.trial.seed})")
        return told


def _column(rows: Sequence[Row], index: int) -> list[Row]:
    return [(row[index],) for row in rows]
