"""Who was not heard of for a while: state and a timer for each group of devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

SILENT_MS = 8000
SILENCE_COLUMNS = "device string, since long"
GROUPS = 16
"""Devices share a key. Every call for state goes from Python to the JVM and back: a group asks once
in a batch for all of its devices."""

Seen = dict[str, tuple[int, bool]]
"""When each device was heard of last, and whether its silence since then was told."""


class Silence(StatefulProcessor):
    """Tells each silence once: when the timer finds the device still silent, or when it is back
    before the watermark has come to the timer. Rows have a `device` and its moment in `ms`."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getListState("seen", "device string, last long, told boolean")

    def handleInputRows(  # noqa: N802 - Spark's names
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Any]:
        seen = self._seen()
        due = _next_due(seen)
        silences = []
        for at, device in sorted(_signals(rows)):
            last, is_told = seen.get(device, (at, False))
            if at - last > SILENT_MS:
                if not is_told:
                    silences.append((device, last))
                is_told = False
            seen[device] = (max(last, at), is_told)
        self._keep(seen)
        # There is a timer for what was due first; when it fires, it is set anew.
        soonest = _next_due(seen)
        if soonest is not None and (due is None or soonest < due):
            self._handle.registerTimer(soonest)
        yield _table(silences)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Any]:
        seen, now = self._seen(), timerValues.getCurrentWatermarkInMs()
        silences = [
            (device, last)
            for device, (last, is_told) in seen.items()
            if not is_told and last + SILENT_MS <= now
        ]
        seen |= {device: (last, True) for device, last in silences}
        if silences:
            self._keep(seen)
        soonest = _next_due(seen)
        if soonest is not None:
            self._handle.registerTimer(soonest)
        yield _table(silences)

    def close(self) -> None:
        pass

    def _seen(self) -> Seen:
        return {device: (last, is_told) for device, last, is_told in self._state.get()}

    def _keep(self, seen: Seen) -> None:
        self._state.put([(device, *known) for device, known in seen.items()])


def _signals(rows: Iterator[Any]) -> Iterable[tuple[int, str]]:
    for frame in rows:
        yield from zip(frame["ms"].tolist(), frame["device"].tolist(), strict=True)


def _next_due(seen: Seen) -> int | None:
    """When the next silence is to be told, unless somebody is heard of."""
    return min((last + SILENT_MS for last, is_told in seen.values() if not is_told), default=None)


def _table(silences: list[tuple[str, int]]) -> Any:
    import pandas as pd  # type: ignore[import-untyped]

    return pd.DataFrame(silences, columns=["device", "since"])
