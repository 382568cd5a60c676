from __future__ import annotations

import pytest

from headwater.runtime.latency import quantile

ROWS = {100: 98, 900: 1, 5000: 1}


@pytest.mark.parametrize(
    ("share", "oldest_ms", "told_ms"),
    [(0.5, None, 100), (0.99, None, 900), (1.0, None, 5000), (1.0, 4700, 4700), (0.99, 4700, 900)],
)
def test_no_share_of_the_rows_takes_longer_than_the_oldest(
    share: float, oldest_ms: int | None, told_ms: int
) -> None:
    assert quantile(ROWS, share, oldest_ms=oldest_ms) == told_ms


def test_a_batch_without_rows_has_no_latency() -> None:
    assert quantile({}, 0.99, oldest_ms=4700) is None
