"""Whether a table's query is new or resumes."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.planning.verdicts import Shape, Verdict, compared
from headwater.runtime.storage import Files, Storage, last_number

NOTHING_CHANGED = Verdict()


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """A checkpoint's place and how far it has come; None where no batch was begun or committed."""

    path: str
    last_planned: int | None
    last_committed: int | None
    verdict: Verdict = NOTHING_CHANGED

    @property
    def is_new(self) -> bool:
        return self.last_planned is None

    def __str__(self) -> str:
        if self.verdict.problems:
            return f"cannot be resumed: {'; '.join(self.verdict.problems)}"
        return self._how_far()

    def _how_far(self) -> str:
        if self.last_planned is None:
            return "new"
        if self.last_committed is None:
            return f"resumes with batch {self.last_planned}, which did not end"
        if self.last_planned > self.last_committed:
            return (
                f"resumes after batch {self.last_committed}; "
                f"batch {self.last_planned} did not end and runs again"
            )
        return f"resumes after batch {self.last_committed}"


def checkpoint_state(files: Files, storage: Storage, table: str, shape: Shape) -> CheckpointState:
    path = storage.checkpoint(table)
    planned = last_number(files, f"{path}/offsets")
    committed = last_number(files, f"{path}/commits")
    return CheckpointState(path, planned, committed, _verdict(files, storage.shape(table), shape))


def _verdict(files: Files, path: str, shape: Shape) -> Verdict:
    before = Shape.parse(files.read(path)) if files.exists(path) else None
    return NOTHING_CHANGED if before is None else compared(before, shape)
