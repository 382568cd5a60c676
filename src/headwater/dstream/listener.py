"""What a program tells while it runs, in the words of Spark's streaming listener."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_log = logging.getLogger(__name__)


class StreamingListener:
    """Override what you want to hear. Calls come between batches, so keep them short."""

    def onStreamingStarted(self, streamingStarted: Any) -> None:
        """The context has started."""

    def onReceiverStarted(self, receiverStarted: Any) -> None:
        """A receiver runs."""

    def onReceiverError(self, receiverError: Any) -> None:
        """A receiver reported an error, or died; it is started again."""

    def onReceiverStopped(self, receiverStopped: Any) -> None:
        """A receiver has ended."""

    def onBatchSubmitted(self, batchSubmitted: Any) -> None:
        """The input of a batch is known."""

    def onBatchStarted(self, batchStarted: Any) -> None:
        """The first output of a batch begins."""

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        """All outputs of a batch are done."""

    def onOutputOperationStarted(self, outputOperationStarted: Any) -> None:
        """One output of a batch begins."""

    def onOutputOperationCompleted(self, outputOperationCompleted: Any) -> None:
        """One output of a batch is done, or failed."""


def tell(listeners: Iterable[StreamingListener], call: str, event: Any) -> None:
    """Calls every listener; what one raises is logged and stops nothing."""
    for listener in listeners:
        try:
            getattr(listener, call)(event)
        except Exception:
            # The user's own code, which may raise anything; Spark goes on as well.
            _log.exception("%s of a %s failed", call, type(listener).__name__)


@dataclass(frozen=True, slots=True)
class StreamInputInfo:
    """What one input has for a batch."""

    _inputStreamId: int
    _numRecords: int

    def inputStreamId(self) -> int:
        return self._inputStreamId

    def numRecords(self) -> int:
        return self._numRecords


@dataclass(frozen=True, slots=True)
class BatchTime:
    """A batch time, as `str` and in milliseconds."""

    _milliseconds: int

    def milliseconds(self) -> int:
        return self._milliseconds

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"


@dataclass(frozen=True, slots=True)
class OutputOperationInfo:
    """One output of a batch."""

    _batchTime: BatchTime
    _id: int
    _name: str
    _startTime: int = -1
    _endTime: int = -1
    _failureReason: str | None = None

    def batchTime(self) -> BatchTime:
        return self._batchTime

    def id(self) -> int:
        return self._id

    def name(self) -> str:
        """Which output it is: its operation, and the line that asked for it."""
        return self._name

    def description(self) -> str:
        return self._name

    def startTime(self) -> int:
        return self._startTime

    def endTime(self) -> int:
        return self._endTime

    def failureReason(self) -> str | None:
        return self._failureReason


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """One batch; a delay is in milliseconds, and -1 while it is not known."""

    _batchTime: BatchTime
    _submissionTime: int
    _inputs: Mapping[int, StreamInputInfo]
    _processingStartTime: int = -1
    _processingEndTime: int = -1
    _outputs: Mapping[int, OutputOperationInfo] = field(default_factory=dict)

    def batchTime(self) -> BatchTime:
        return self._batchTime

    def submissionTime(self) -> int:
        return self._submissionTime

    def processingStartTime(self) -> int:
        return self._processingStartTime

    def processingEndTime(self) -> int:
        return self._processingEndTime

    def streamIdToInputInfo(self) -> Mapping[int, StreamInputInfo]:
        """What each input has, by its number in the program."""
        return self._inputs

    def numRecords(self) -> int:
        return sum(info.numRecords() for info in self._inputs.values())

    def outputOperationInfos(self) -> Mapping[int, OutputOperationInfo]:
        return self._outputs

    def schedulingDelay(self) -> int:
        """How long the batch waited for earlier ones."""
        if self._processingStartTime < 0:
            return -1
        return self._processingStartTime - self._submissionTime

    def processingDelay(self) -> int:
        """How long the outputs took."""
        if self._processingEndTime < 0:
            return -1
        return self._processingEndTime - self._processingStartTime

    def totalDelay(self) -> int:
        if self._processingEndTime < 0:
            return -1
        return self._processingEndTime - self._submissionTime


@dataclass(frozen=True, slots=True)
class BatchEvent:
    """onBatchSubmitted, onBatchStarted, onBatchCompleted."""

    _batchInfo: BatchInfo

    def batchInfo(self) -> BatchInfo:
        return self._batchInfo


@dataclass(frozen=True, slots=True)
class OutputOperationEvent:
    """onOutputOperationStarted, onOutputOperationCompleted."""

    _info: OutputOperationInfo

    def outputOperationInfo(self) -> OutputOperationInfo:
        return self._info


@dataclass(frozen=True, slots=True)
class StreamingStarted:
    """onStreamingStarted."""

    _time: int

    def time(self) -> int:
        return self._time


@dataclass(frozen=True, slots=True)
class ReceiverInfo:
    """A receiver and its last error."""

    _streamId: int
    _name: str
    _active: bool
    _lastErrorMessage: str = ""
    _lastError: str = ""
    _lastErrorTime: int = -1
    _location: str = ""
    _executorId: str = ""

    def streamId(self) -> int:
        return self._streamId

    def name(self) -> str:
        return self._name

    def active(self) -> bool:
        return self._active

    def location(self) -> str:
        """The host that it runs on; empty where it has not begun."""
        return self._location

    def executorId(self) -> str:
        return self._executorId

    def lastErrorTime(self) -> int:
        """In milliseconds; -1 where there was no error."""
        return self._lastErrorTime

    def lastErrorMessage(self) -> str:
        return self._lastErrorMessage

    def lastError(self) -> str:
        return self._lastError


@dataclass(frozen=True, slots=True)
class ReceiverEvent:
    """onReceiverStarted, onReceiverError, onReceiverStopped."""

    _receiverInfo: ReceiverInfo

    def receiverInfo(self) -> ReceiverInfo:
        return self._receiverInfo
