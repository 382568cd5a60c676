"""The terminal: rows of every batch, as Spark's console sink prints them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from headwater.connectors.interface import (
    ALL_MODES,
    Connector,
    Idempotence,
    WriteRequest,
    option_texts,
)
from headwater.definitions import OutputMode, TriggerKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_NATIVE = frozenset({TriggerKind.CONTINUOUS, TriggerKind.REAL_TIME})
_RULE = "-" * 43


@dataclass(frozen=True, slots=True)
class Console(Connector):
    """Rows on standard output. See `console`."""

    system: ClassVar[str] = "console"
    writes: ClassVar[bool] = True
    writes_increments: ClassVar[bool] = True
    write_triggers: ClassVar[frozenset[TriggerKind]] = frozenset(TriggerKind)

    rows: int = 20
    is_truncated: bool = True
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def modes(self, *, has_key: bool) -> frozenset[OutputMode]:
        return ALL_MODES

    def idempotence(self, mode: OutputMode, *, has_key: bool) -> Idempotence:
        return Idempotence(False, "a terminal shows a batch again when it is written again")

    def write_stream(self, frame: DataFrame, request: WriteRequest) -> DataStreamWriter:
        if request.trigger in _NATIVE:
            options = {"numRows": str(self.rows), "truncate": str(self.is_truncated).lower()}
            return frame.writeStream.format("console").options(**{**options, **self.options})
        # Spark's own sink prints from the JVM, past whatever sys.stdout is (a test, a log file).
        return frame.writeStream.foreachBatch(self._show)

    def write_increment(
        self, frame: DataFrame, request: WriteRequest, *, query: str, batch: int
    ) -> None:
        self._show(frame, batch)

    def write_batch(self, frame: DataFrame, request: WriteRequest) -> None:
        print(self._table(frame), flush=True)

    def _show(self, frame: DataFrame, batch: int) -> None:
        print(f"{_RULE}\nBatch: {batch}\n{_RULE}\n{self._table(frame)}", flush=True)

    def _table(self, frame: DataFrame) -> str:
        text: str = frame._jdf.showString(self.rows, 20 if self.is_truncated else 0, False)
        return text


def console(
    *, rows: int = 20, truncate: bool = True, options: Mapping[str, object] | None = None
) -> Console:
    """A sink that prints the first `rows` rows of every batch on standard output.

    All output modes, all triggers. Under micro-batch triggers the text goes through Python's
    `sys.stdout`; under continuous and real-time ones Spark's own sink prints from the JVM, and
    only then do `options` apply. At-least-once: a batch that is run again is printed again.

    >>> console(rows=5).describe()
    'console'
    """
    return Console(rows, truncate, option_texts(options))
