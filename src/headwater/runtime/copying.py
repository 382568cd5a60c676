"""Rows that only Spark can read, copied for who asks in SQL: so many at most, and for so long."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.errors import HeadwaterError, RowsUnreadable, SqlTimeout
from headwater.runtime.failures import first_line
from headwater.runtime.session import Share, scheduled_in
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AGAIN_S = 0.2


def copied(
    spark: SparkSession,
    read: Callable[[], DataFrame],
    name: str,
    settings: Settings,
    *,
    rows: int,
    timeout_s: float,
) -> Any:
    """The first rows as an Arrow table.

    Raises SqlTimeout, and RowsUnreadable with what the system said, without any secret.
    """
    tag, is_over = f"headwater-{uuid.uuid4().hex}", threading.Event()
    has_timed_out = threading.Event()

    def watch() -> None:
        if is_over.wait(timeout_s):
            return
        has_timed_out.set()
        # A job that begins after an interruption does not hear of it.
        while not is_over.wait(_AGAIN_S):
            spark.interruptTag(tag)

    spark.addTag(tag)
    threading.Thread(target=watch, name="headwater-question", daemon=True).start()
    try:
        with scheduled_in(spark, Share.BESIDE):
            found = read().limit(rows)
            if has_timed_out.is_set():
                raise SqlTimeout(timeout_s)
            return found.toArrow()
    except HeadwaterError:
        raise
    except Exception as problem:
        # Any system may be behind it, with errors and secrets of its own.
        if has_timed_out.is_set():
            raise SqlTimeout(timeout_s) from None
        said = settings.without_secrets(first_line(problem))
        raise RowsUnreadable(name, said) from None
    finally:
        is_over.set()
        spark.removeTag(tag)
