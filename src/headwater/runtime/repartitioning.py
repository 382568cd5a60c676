"""Another number of partitions for the state of a stopped query, by Spark's own offline tool.

Spark writes a batch without input into the checkpoint; the next start goes on behind it. Sinks see
a number left out, which those with a ledger take.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headwater.connectors.files import Files as FileSink
from headwater.errors import RepartitionImpossible
from headwater.runtime.failures import first_line
from headwater.runtime.specification import QuerySpec
from headwater.runtime.storage import Files, Storage, last_number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def repartition(
    spark: SparkSession, storage: Storage, files: Files, spec: QuerySpec, partitions: int
) -> int:
    """The batch that Spark wrote; the caller sees to it that nobody runs the pipeline. Raises
    RepartitionImpossible."""
    checkpoint = storage.checkpoint(spec.name)

    def refuse(found: str) -> RepartitionImpossible:
        return RepartitionImpossible(spec.name, partitions, found, where=spec.table.location)

    committed = last_number(files, f"{checkpoint}/commits")
    if committed is None:
        raise refuse("no batch was committed yet, so the next start takes any number")
    if isinstance(spec.sink, FileSink):
        raise refuse("the manifest of a file sink must have every batch, and Spark's has no rows")
    if spec.late is not None and spec.late.has_panes:
        raise refuse("its panes are kept batch by batch")
    try:
        manager = spark._jsparkSession.streamingCheckpointManager()
        manager.repartition(checkpoint, partitions, True)
    except Exception as failure:
        raise refuse(first_line(failure)) from failure
    _note(files, storage.shape(spec.name), partitions)
    return last_number(files, f"{checkpoint}/commits") or committed


def _note(files: Files, shape: str, partitions: int) -> None:
    """The next start compares with what the checkpoint has now."""
    if files.exists(shape):
        files.write(shape, json.dumps({**json.loads(files.read(shape)), "partitions": partitions}))
