"""How long a sink waits for a system that is away."""

from __future__ import annotations

from collections.abc import Iterator

_WAITS_S = (0.5, 1, 2, 4, 8, 8, 8)


def waits_s() -> Iterator[float | None]:
    """Between attempts to write a batch, half a minute in all; None: that was the last one."""
    yield from _WAITS_S
    yield None
