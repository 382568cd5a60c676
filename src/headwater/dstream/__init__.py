"""The DStream API on Structured Streaming: change the import lines of a program and run it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.dstream.context import StreamingContext
    from headwater.dstream.kafka import KafkaUtils
    from headwater.dstream.listener import StreamingListener
    from headwater.dstream.pacing import SteppedClock
    from headwater.dstream.receivers import Receiver
    from headwater.dstream.spark import SparkContext
    from headwater.dstream.stream import DStream

__all__ = [
    "DStream",
    "KafkaUtils",
    "Receiver",
    "SparkContext",
    "SteppedClock",
    "StreamingContext",
    "StreamingListener",
]

_HOMES = {
    "DStream": "stream",
    "KafkaUtils": "kafka",
    "Receiver": "receivers",
    "SparkContext": "spark",
    "SteppedClock": "pacing",
    "StreamingContext": "context",
    "StreamingListener": "listener",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        from headwater.dstream.unsupported import REPLACEMENTS, unsupported

        if name in REPLACEMENTS:
            raise unsupported(name)
        raise AttributeError(f"module 'headwater.dstream' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"headwater.dstream.{_HOMES[name]}"), name)
