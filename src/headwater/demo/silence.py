"""Who was not heard of for a while: state and a timer per device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

SILENT_MS = 8000
SILENCE_COLUMNS = "device string, since long"


class Silence(StatefulProcessor):
    """Tells each silence once: when the timer finds the device still silent, or when it is back
    before the watermark has come to the timer.

    A timer is set anew only when it has fired: a device that speaks costs one update per batch.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._seen = handle.getValueState("seen", "last long, told boolean")

    def handleInputRows(  # noqa: N802 - Spark's names
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        moments = sorted(int(row.at.timestamp() * 1000) for row in rows)
        # Every call goes to the JVM and back; a value that is not there is None.
        known = self._seen.get()
        last, is_told = known or (moments[0], False)
        has_timer = known is not None and not is_told
        for at in moments:
            if at - last > SILENT_MS:
                if not is_told:
                    yield Row(device=key[0], since=last)
                is_told = False
            last = max(last, at)
        self._seen.update((last, is_told))
        if not is_told and not has_timer:
            self._handle.registerTimer(last + SILENT_MS)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        known = self._seen.get()
        assert known is not None
        last = known[0]
        due = last + SILENT_MS
        # A timer that is set for a moment in the past would wait for the next batch.
        if due > timerValues.getCurrentWatermarkInMs():
            self._handle.registerTimer(due)
            return
        self._seen.update((last, True))
        yield Row(device=key[0], since=last)

    def close(self) -> None:
        pass
