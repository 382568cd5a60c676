"""Whether a table's query is new or resumes."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.runtime.storage import Files, Storage, last_number


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """A checkpoint's place and how far it has come; None where no batch was begun or committed."""

    path: str
    last_planned: int | None
    last_committed: int | None

    @property
    def is_new(self) -> bool:
        return self.last_planned is None

    def __str__(self) -> str:
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


def checkpoint_state(files: Files, storage: Storage, table: str) -> CheckpointState:
    path = storage.checkpoint(table)
    return CheckpointState(
        path, last_number(files, f"{path}/offsets"), last_number(files, f"{path}/commits")
    )
