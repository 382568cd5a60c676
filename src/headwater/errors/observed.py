"""Looking at a pipeline: its servers, its rows in SQL."""

from __future__ import annotations

from headwater.errors.base import EnvironmentProblem


class AddressTaken(EnvironmentProblem):
    code = "ADDRESS_TAKEN"

    def __init__(self, what: str, port: int, holder: str | None) -> None:
        super().__init__(
            f"port {port} for the {what} is in use",
            found=holder or "a process of another user, or one that could not be named",
            remedy="choose another port, or 0 for one that is free",
            data="nothing was started",
        )
