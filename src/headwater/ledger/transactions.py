"""Delta's own transaction identifiers as a ledger: an append that is recognised when repeated.

Delta stores, per application, the highest version that it committed, in the same atomic commit as
the rows. One line per application: the ledger does not grow with batches.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headwater.jvm.classes import java_class
from headwater.jvm.jar import APPEND
from headwater.ledger import compaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def append(frame: DataFrame, path: str, *, application: str, version: int) -> int:
    """Appends the rows unless this version of the application is there; returns how many."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    before = last_version(frame.sparkSession, path, application)
    if before is not None and before >= version:
        return 0
    written = Observation()
    rows = frame.observe(written, F.count(F.lit(1)).alias("rows"))
    if before is None or not _append_after(rows, path, application, version):
        writer = rows.write.format("delta").mode("append").option("mergeSchema", "true")
        writer.option("txnAppId", application).option("txnVersion", version).save(path)
    return int(written.get["rows"])


def _append_after(frame: DataFrame, path: str, application: str, version: int) -> bool:
    """Appends a version that is known to be new, as Delta does except that it does not ask its log
    for it; whether this Delta lets us."""
    session = frame.sparkSession._jsparkSession
    append_new = java_class(frame.sparkSession, APPEND).append
    return bool(append_new(frame._jdf, path, application, version, session.sessionState().conf()))


def append_few(frame: DataFrame, path: str, *, application: str, version: int) -> int:
    """As `append`, on a disk of this machine. Rows that fit into this process are committed from
    here: Spark takes as long for ten rows as for a million. It makes and changes the table."""
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    if not DeltaTable.is_deltatable(path):
        return append(frame, path, application=application, version=version)
    table = DeltaTable(path)
    if {field.name for field in table.schema().fields} != set(frame.columns):
        return append(frame, path, application=application, version=version)
    before = table.transaction_version(application)
    if before is not None and before >= version:
        return 0
    rows = frame.toArrow()
    noted = CommitProperties(app_transactions=[Transaction(application, version)])
    write_deltalake(table, rows, mode="append", commit_properties=noted)
    compaction.compact(table)
    return int(rows.num_rows)


@contextlib.contextmanager
def recorded(spark: SparkSession, *, application: str, version: int) -> Iterator[None]:
    """What this session changes in a Delta table while entered carries the version, in the same
    commit; Delta leaves out what is there already. A streaming query has a session of its own."""
    noted = {_APPLICATION: application, _VERSION: str(version)}
    for key, value in noted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in noted:
            spark.conf.unset(key)


_APPLICATION = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"


def last_version(spark: SparkSession, path: str, application: str) -> int | None:
    """The highest version that an application committed to a table; None where there is none."""
    if "://" in path:
        return _last_version_in_session(spark, path, application)
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        found = DeltaTable(path).transaction_version(application)
    except TableNotFoundError:
        return None
    return None if found is None else int(found)


def _last_version_in_session(spark: SparkSession, path: str, application: str) -> int | None:
    """On other storage, where only the session that asks has written."""
    logs = java_class(spark, "org.apache.spark.sql.delta.DeltaLog")
    snapshot = logs.forTable(spark._jsparkSession, path).unsafeVolatileSnapshot()
    # A commit writes them beside its checksum; to gather them from the log takes a Spark job.
    checksum = snapshot.checksumOpt()
    listed = checksum.get().setTransactions() if checksum.isDefined() else checksum
    transactions = listed.get() if listed.isDefined() else snapshot.setTransactions()
    for position in range(transactions.size()):
        transaction = transactions.apply(position)
        if transaction.appId() == application:
            return int(transaction.version())
    return None
