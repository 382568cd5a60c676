"""What a query keeps between batches, read through Spark's state data source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.errors import NoState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class State:
    """Keys and values of one operator as text; `operators` are all those of the query."""

    operators: tuple[str, ...]
    batch: int
    partitions: int
    keys: int
    rows: tuple[tuple[str, str], ...]


def state_of(
    spark: SparkSession,
    table: str,
    checkpoint: str,
    operator: int = 0,
    *,
    batch: int | None = None,
    limit: int = 20,
) -> State:
    """Raises NoState where the query has not committed a batch with state, or has no such
    operator."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    try:
        listed = spark.read.format("state-metadata").load(checkpoint).collect()
    except PySparkException as failure:
        raise NoState(table, operator, "no batch was committed") from failure
    names = {(row.operatorId, row.operatorName) for row in listed}
    operators = tuple(f"{number}: {name}" for number, name in sorted(names))
    mine = [row for row in listed if row.operatorId == operator]
    if not mine:
        raise NoState(table, operator, f"operators: {', '.join(operators) or 'none'}")
    reader = spark.read.format("statestore").option("operatorId", operator)
    stores = sorted({row.stateStoreName for row in mine})
    if stores and stores != ["default"]:
        reader = reader.option("storeName", stores[0])
    if batch is not None:
        reader = reader.option("batchId", batch)
    frame = reader.load(checkpoint).persist()
    try:
        keys = frame.count()
        value = F.to_json("value") if "value" in frame.columns else F.lit("")
        shown = frame.select(F.to_json("key"), value).limit(limit).collect()
    finally:
        frame.unpersist()
    last = batch if batch is not None else max(row.maxBatchId for row in mine)
    partitions = _partitions(spark, checkpoint, int(last)) or max(r.numPartitions for r in mine)
    rows = tuple((str(row[0]), str(row[1])) for row in shown)
    return State(operators, int(last), int(partitions), keys, rows)


def _partitions(spark: SparkSession, checkpoint: str, batch: int) -> int | None:
    """What the batch ran with. The operators' own files keep the number of their first batch."""
    try:
        lines = [row.value for row in spark.read.text(f"{checkpoint}/offsets/{batch}").collect()]
        found = json.loads(lines[1])["conf"]["spark.sql.shuffle.partitions"]
    except Exception:
        # The entry of an old batch is gone.
        return None
    return int(found)
