"""How long rows took from their event to the commit of their batch, counted while they pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from headwater.jvm.telling import Ages


def latencies(ages: Iterable[Ages], duration_ms: int) -> dict[int, int]:
    """Rows of a batch by how many milliseconds they took at most; a bucket is an eighth wide.

    Ages are those at the batch's beginning.
    """
    found: Counter[int] = Counter()
    for one in ages:
        for end_ms, rows in one.since_last():
            found[end_ms + duration_ms] += rows
    return dict(sorted(found.items()))


def quantile(rows: Mapping[int, int], share: float, *, oldest_ms: int | None = None) -> int | None:
    """So many milliseconds were enough for this share of the rows; None without any.

    What the oldest row took, where it is known, was enough for all: the end of its bucket is later.

    >>> quantile({100: 98, 900: 1, 5000: 1}, 0.5), quantile({100: 98, 900: 1, 5000: 1}, 0.99)
    (100, 900)
    >>> quantile({5000: 3}, 0.99, oldest_ms=4700)
    4700
    """
    left = sum(rows.values()) * share
    for end_ms in sorted(rows):
        left -= rows[end_ms]
        if left <= 0:
            return end_ms if oldest_ms is None else min(end_ms, oldest_ms)
    return None
