"""Rows that only Spark can read, for who asks in SQL: it answers plain questions over them, with so
many rows at most, and for so long."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from headwater.errors import HeadwaterError, RowsUnreadable, SqlFailed, SqlTimeout
from headwater.runtime.failures import first_line
from headwater.runtime.session import Share, scheduled_in
from headwater.settings import Settings
from headwater.sql.questions import asked_of

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
    question: str | None = None,
) -> Any:
    """The first rows, or those that answer a question, as an Arrow table.

    Raises SqlTimeout, SqlRefused for a question that is not plain, SqlFailed for one that does not
    fit the rows, and RowsUnreadable with what the system said, without any secret.
    """
    tag, is_over = f"headwater-{uuid.uuid4().hex}", threading.Event()
    has_timed_out, context = threading.Event(), spark.sparkContext

    def watch() -> None:
        if is_over.wait(timeout_s):
            return
        has_timed_out.set()
        # A job that begins after an interruption does not hear of it.
        while not is_over.wait(_AGAIN_S):
            context.cancelJobsWithTag(tag)

    # Tags of the session are known to the thread alone that added them.
    context.addJobTag(tag)
    threading.Thread(target=watch, name="headwater-question", daemon=True).start()
    try:
        with scheduled_in(spark, Share.BESIDE):
            # A task is not interrupted for another: some cores are left to the queries.
            frame = read().coalesce(max(1, context.defaultParallelism // 2))
            found = frame if question is None else _answering(spark, frame, name, question)
            if has_timed_out.is_set():
                raise SqlTimeout(timeout_s)
            return found.limit(rows).toArrow()
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
        context.removeJobTag(tag)


def _answering(spark: SparkSession, frame: DataFrame, name: str, question: str) -> DataFrame:
    from pyspark.errors import AnalysisException

    # Not by its own name: a table in memory is a view of that name.
    view = f"headwater_{uuid.uuid4().hex}"
    text = asked_of(question, name, view)
    frame.createOrReplaceTempView(view)
    try:
        with _unlogged():
            return spark.sql(text)
    except AnalysisException as problem:
        raise SqlFailed(first_line(problem)) from None
    finally:
        spark.catalog.dropTempView(view)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """PySpark prints mistakes in SQL, here to the terminal of somebody who did not ask."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False
