"""How a query is handed to Spark: by its trigger, and with settings that it takes at its start."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from headwater.definitions import (
    Trigger,
    TriggerKind,
    WatermarkPolicy,
    duration_ms,
    spark_duration,
)
from headwater.runtime.session import Share
from headwater.runtime.specification import QuerySpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_PROMPT_MS = 2000
_starting = threading.Lock()


@contextlib.contextmanager
def watermark_policy(spark: SparkSession, policy: WatermarkPolicy) -> Iterator[None]:
    """A query takes its settings from the session at its start, and then from its checkpoint."""
    if policy is WatermarkPolicy.MINIMUM:
        yield
        return
    with _starting:
        before = spark.conf.getAll.get(_POLICY)
        spark.conf.set(_POLICY, "max")
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_POLICY)
            else:
                spark.conf.set(_POLICY, before)


def share_of(trigger: Trigger) -> Share:
    """Who asks for a batch every second or two is not to wait behind who has minutes.

    >>> share_of(Trigger.processing_time("1 second")).name, share_of(Trigger.available_now()).name
    ('PROMPT', 'QUERIES')
    """
    has_time = trigger.is_bounded
    if trigger.kind is TriggerKind.PROCESSING_TIME:
        has_time = duration_ms(trigger.interval or "") > _PROMPT_MS
    return Share.QUERIES if has_time else Share.PROMPT


def triggered(writer: DataStreamWriter, spec: QuerySpec) -> DataStreamWriter:
    interval = spark_duration(spec.trigger.interval) if spec.trigger.interval else ""
    match spec.trigger.kind:
        case TriggerKind.PROCESSING_TIME:
            return writer.trigger(processingTime=interval)
        case TriggerKind.ONCE:
            return writer.trigger(once=True)
        case TriggerKind.AVAILABLE_NOW:
            return writer.trigger(availableNow=True)
        case TriggerKind.CONTINUOUS:
            return writer.trigger(continuous=interval)
        case TriggerKind.REAL_TIME:
            # The overloads of PySpark 4.2.0 leave this keyword out.
            return cast(Any, writer).trigger(realTime=interval)  # type: ignore[no-any-return]
    return writer
