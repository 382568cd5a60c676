"""Where a pipeline under test lives: a session beside the user's, and a folder that is quick."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def active_session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession._activeSession


def make_active(session: Any) -> None:
    from pyspark.sql import SparkSession

    if session is not None and SparkSession._activeSession is not session:
        SparkSession._activeSession = session
        java = session._jsparkSession
        getattr(getattr(session._jvm, "SparkSession$"), "MODULE$").setActiveSession(java)


def own_session(spark: SparkSession, partitions: int) -> SparkSession:
    """A session beside the user's: its views and functions, its own settings and queries."""
    from pyspark.sql import SparkSession

    java: Any = spark._jsparkSession
    session = SparkSession(spark.sparkContext, java.cloneSession())
    for key, value in {**_SETTINGS, "spark.sql.shuffle.partitions": str(partitions)}.items():
        session.conf.set(key, value)
    return session


_SETTINGS = {
    "spark.sql.streaming.pollingDelay": "1ms",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
}
"""What makes a test of a few rows quick, and its times those of its rows."""
_ROOM_BYTES = 1024**3


def fast_folder() -> str | None:
    """A folder in memory where the machine has one: a checkpoint is many small files."""
    memory = "/dev/shm"
    has_room = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM_BYTES
    return memory if has_room else None
