"""What a query keeps between batches, read through Spark's state data source."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.errors import NoState
from headwater.runtime.storage import Files, Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SIDES = ("left", "right")
_OF_SPARK = "partition_id"
TIMERS = "timers"


@dataclass(frozen=True, slots=True)
class StatePart:
    """One store of an operator: all of an aggregation, a side of a join, a variable of a processor.
    `keys` and `entries` are those of every partition; `rows` some keys with their values, as text.
    """

    name: str
    kind: str
    keys: tuple[int, ...]
    entries: tuple[int, ...]
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class State:
    """One operator; `operators` are all those of the query, `parts` those that were asked for."""

    operators: tuple[str, ...]
    batch: int
    bytes_on_disk: tuple[int, ...]
    """Of every partition, with the older versions that Spark keeps."""
    parts: tuple[StatePart, ...]


@dataclass(frozen=True, slots=True)
class _Store:
    name: str
    kind: str
    options: dict[str, str]


def state_of(
    spark: SparkSession,
    storage: Storage,
    table: str,
    operator: int = 0,
    *,
    part: str | None = None,
    batch: int | None = None,
    limit: int = 20,
) -> State:
    """Raises NoState where the query has not committed a batch with state, or has no such operator
    or part."""
    from pyspark.errors import PySparkException

    files, checkpoint = Files(storage, spark), storage.checkpoint(table)
    if not files.names(f"{checkpoint}/commits"):
        raise NoState(table, operator, "no batch was committed yet")
    listed = spark.read.format("state-metadata").load(checkpoint).collect()
    if not listed:
        raise NoState(table, operator, "none of its operators keeps state")
    names = {(row.operatorId, row.operatorName) for row in listed}
    operators = tuple(f"{number}: {name}" for number, name in sorted(names))
    mine = [row for row in listed if row.operatorId == operator]
    if not mine:
        raise NoState(table, operator, f"operators: {', '.join(operators) or 'none'}")
    stores = _stores(mine)
    chosen = [store for store in stores if part in (None, store.name)]
    if not chosen:
        parts = ", ".join(store.name for store in stores if store.name) or "one, without a name"
        raise NoState(table, operator, f"no part {part!r}; parts: {parts}")
    last = int(batch if batch is not None else max(row.maxBatchId for row in mine))
    partitions = _partitions(files, checkpoint, last) or max(row.numPartitions for row in mine)
    reader = {"operatorId": str(operator), "batchId": str(last)}
    try:
        parts_read = [
            _read(spark, checkpoint, store, reader, int(partitions), limit) for store in chosen
        ]
    except PySparkException as failure:
        first = str(failure).split("\n", 1)[0]
        raise NoState(table, operator, f"Spark cannot read batch {last}: {first}") from failure
    home = f"{checkpoint}/state/{operator}"
    sizes = tuple(files.size(f"{home}/{number}") for number in range(int(partitions)))
    return State(operators, last, sizes, tuple(parts_read))


def _stores(listed: Sequence[Any]) -> list[_Store]:
    """What Spark's reader can be asked for, by what the operator says of itself."""
    names = {row.stateStoreName for row in listed}
    if any(name.startswith(_SIDES) for name in names) or "join" in listed[0].operatorName.lower():
        return [_Store(side, "side of the join", {"joinSide": side}) for side in _SIDES]
    about = json.loads(listed[0].operatorProperties or "{}")
    if "stateVariables" not in about:
        return [_Store("", "", {} if names == {"default"} else {"storeName": min(names)})]
    variables = sorted(about["stateVariables"], key=lambda variable: variable["stateName"])
    # Spark's own, such as those of timers, begin with a dollar.
    stores = [
        _Store(v["stateName"], v["stateVariableType"], {"stateVarName": v["stateName"]})
        for v in variables
        if not v["stateName"].startswith("$")
    ]
    if any(v["stateVariableType"] == "TimerState" for v in variables):
        stores.append(_Store(TIMERS, "registered timers", {"readRegisteredTimers": "true"}))
    return stores


def _read(
    spark: SparkSession,
    checkpoint: str,
    store: _Store,
    reader: dict[str, str],
    partitions: int,
    limit: int,
) -> StatePart:
    from pyspark.sql import functions as F

    source = spark.read.format("statestore").options(**reader, **store.options)
    frame = source.load(checkpoint).withColumn("__key", F.to_json("key")).persist()
    try:
        counted = frame.groupBy(_OF_SPARK).agg(F.count_distinct("__key"), F.count("*")).collect()
        shown = frame.select("__key", _value(frame)).limit(limit).collect()
    finally:
        frame.unpersist()
    by_partition = {row[0]: (row[1], row[2]) for row in counted}
    found = [by_partition.get(number, (0, 0)) for number in range(partitions)]
    keys, entries = tuple(keys for keys, _ in found), tuple(entries for _, entries in found)
    rows = tuple((str(row[0]), str(row[1])) for row in shown)
    return StatePart(store.name, store.kind, keys, entries, rows)


def _value(frame: DataFrame) -> Column:
    """Everything that stands beside the key: a map has a key of its own, a timer a time."""
    from pyspark.sql import functions as F

    columns = [name for name in frame.columns if name not in ("key", "__key", _OF_SPARK)]
    if columns == ["value"]:
        return F.to_json("value")
    return F.to_json(F.struct(*columns)) if columns else F.lit("")


def _partitions(files: Files, checkpoint: str, batch: int) -> int | None:
    """What the batch ran with. The operators' own files keep the number of their first batch."""
    path = f"{checkpoint}/offsets/{batch}"
    if not files.exists(path):
        # The entry of an old batch is gone.
        return None
    about = json.loads(files.read(path).splitlines()[1] or "{}")
    found = about.get("conf", {}).get("spark.sql.shuffle.partitions")
    return None if found is None else int(found)
