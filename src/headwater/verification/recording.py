"""The input of a verification: for each source its rows, in the order in which they arrived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.connectors.files import Files
from headwater.connectors.interface import REJECTED, Connector, ReadRequest, located
from headwater.connectors.kafka import ORIGIN, Kafka
from headwater.definitions import Source, Trigger
from headwater.errors import InputEmpty, InputTooLarge, UnknownSource
from headwater.runtime.specification import read_request
from headwater.runtime.storage import Storage
from headwater.testing.kept import Row
from headwater.testing.values import Rows, arrow_table, from_arrow, records, typed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.testing.scene import Scene

Recording = Mapping[str, list[Row]]
"""Rows by source, in the order of their arrival."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Reads what the sources hold now, or rows in their place; at most so many."""

    scene: Scene
    given: Mapping[str, Rows]
    limit: int

    def record(self, sources: Mapping[str, Source]) -> dict[str, list[Row]]:
        for name in self.given:
            if name not in sources:
                raise UnknownSource(name, sources)
        found = {name: self._rows(source) for name, source in sources.items()}
        total = sum(map(len, found.values()))
        if total == 0:
            raise InputEmpty(list(sources))
        if total > self.limit:
            raise InputTooLarge(total, self.limit)
        return found

    def _rows(self, source: Source) -> list[Row]:
        if source.name in self.given:
            schema, what = self.scene.tape(source.name).schema, f"input of {source.name}"
            return typed(
                records(self.given[source.name], schema.names, what=what), schema, what=what
            )
        settings = self.scene.settings
        storage = Storage(settings.storage_root, self.scene.definitions.pipeline)
        request = read_request(source, source.connector, settings, storage, Trigger.default())
        source.connector.check_readable(request)
        return self._arrived(source.connector, replace(request, max_ahead_ms=None))

    def _arrived(self, connector: Connector, request: ReadRequest) -> list[Row]:
        spark = self.scene.spark
        if isinstance(connector, Kafka):
            return _collected(_by_broker(spark, connector, request), self.limit)
        if isinstance(connector, Files) and "://" not in connector.path:
            rows: list[Row] = []
            for file in _files(located(connector.path, request.base)):
                part = replace(connector, path=str(file))
                rows += _collected(part.read_batch(spark, request), self.limit)
            return rows
        return _collected(connector.read_batch(spark, request), self.limit)


def _by_broker(spark: SparkSession, connector: Kafka, request: ReadRequest) -> DataFrame:
    """In the order of the broker's timestamps; of one partition always in its own order."""
    if request.schema is None:
        return connector.read_batch(spark, request).orderBy("timestamp", "partition", "offset")
    order = [f"{ORIGIN}.{name}" for name in ("timestamp", "partition", "offset")]
    wanted = tuple(dict.fromkeys((*connector.fields, "timestamp", "partition", "offset")))
    frame = replace(connector, fields=wanted).read_batch(spark, request).orderBy(*order)
    if not connector.fields:
        return frame.drop(ORIGIN)
    from pyspark.sql import functions as F

    kept = F.struct(*(F.col(f"{ORIGIN}.{name}").alias(name) for name in connector.fields))
    return frame.withColumn(ORIGIN, kept)


def _files(path: str) -> list[Path]:
    place = Path(path)
    found = [place] if place.is_file() else [f for f in place.rglob("*") if f.is_file()]
    visible = [f for f in found if not f.name.startswith((".", "_"))]
    return sorted(visible, key=lambda f: (f.stat().st_mtime_ns, f.name))


def _collected(frame: DataFrame, limit: int) -> list[Row]:
    if REJECTED in frame.columns:
        frame = frame.where(f"NOT {REJECTED}").drop(REJECTED)
    return from_arrow(frame.limit(limit + 1).toArrow())


def save(recording: Recording, scene: Scene, folder: Path) -> None:
    """Writes the rows as Parquet, a file per source, for `--input`."""
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in recording.items():
        table = arrow_table(rows, scene.tape(name).schema, what=f"source {name}")
        parquet.write_table(table, folder / f"{name}.parquet")
