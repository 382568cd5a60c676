"""What running queries tell of their batches: late rows, rejected records, how far rows are behind,
how old they are and how many reach the sink."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.connectors.interface import MICRO_BATCH
from headwater.definitions import Source
from headwater.event_time.watch import Watch
from headwater.event_time.watermark import batch_watermark
from headwater.events import LateCount
from headwater.graph import Graph
from headwater.jvm.asking import asked_per_batch
from headwater.jvm.telling import Ages, Ear, Handed
from headwater.runtime.frames import Gate
from headwater.runtime.late import newest_seen, watch_over
from headwater.runtime.latency import latencies, quantile
from headwater.runtime.lateness import LatenessMeter
from headwater.runtime.offsets import OffsetLog
from headwater.runtime.progress import batch_completed
from headwater.runtime.rejects import reporter_of
from headwater.runtime.sides import Told
from headwater.runtime.specification import QuerySpec
from headwater.runtime.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Hearing:
    """The watches and gates of all queries of a run; `measures` is about the lateness of rows."""

    def __init__(
        self, spark: SparkSession, graph: Graph, storage: Storage, *, measures: bool
    ) -> None:
        self._spark = spark
        self._graph = graph
        self._measures = measures
        self._meter = LatenessMeter(spark, storage)
        self._watches: dict[str, Watch] = {}
        self._ears: dict[str, dict[str, Ear]] = {}
        self._ages: dict[str, dict[str, Ages]] = {}
        self._handed: dict[str, Handed] = {}
        self._late: dict[str, LateCount] = {}
        self._rejected: dict[str, int] = {}

    def gate(self, table: str, source: Source, log: OffsetLog) -> Gate:
        """Counts rejected records; the one query that reports a source also measures its lags."""
        ear = self._ears.setdefault(table, {})[source.name] = Ear(self._spark)
        batch, newest = asked_per_batch(self._spark, log.latest_batch), None
        now_ms = asked_per_batch(self._spark, log.timestamp_ms)
        is_reported = reporter_of(self._graph, source.name) == table
        if self._measures and is_reported and source.watermark is not None:
            watermark = batch_watermark(self._spark, log.watermark_ms)
            late = self._graph.tables[table].late
            newest = newest_seen(watermark, self._graph.sources_of(table), late)
        lags = None if newest is None else self._meter.lags(source.name)
        ages = Ages(self._spark) if self._measures and source.event_time is not None else None
        if ages is not None:
            self._ages.setdefault(table, {})[source.name] = ages
        return Gate(ear, batch, now_ms, newest, lags, ages, keeps=is_reported)

    def watched(self, spec: QuerySpec, frame: DataFrame, log: OffsetLog) -> DataFrame:
        """A query that lets no late row into its state, where it has a policy for them."""
        if spec.late is None:
            return frame
        watch = watch_over(frame, spec.late, self._graph.sources_of(spec.name), log)
        self._watches[spec.name] = watch
        return watch.frame

    def counted(self, spec: QuerySpec, frame: DataFrame) -> DataFrame:
        """The rows for the sink, counted where they come in batches; most sinks do not tell."""
        if not self._measures or spec.trigger.kind not in MICRO_BATCH:
            return frame
        if spec.name not in self._handed:
            self._handed[spec.name] = Handed(self._spark)
        return self._handed[spec.name].counting(frame)

    def heard(self, table: str, progress: dict[str, Any]) -> Told:
        """What there is to tell of a batch that has ended."""
        event, watch = batch_completed(table, progress), self._watches.get(table)
        heard = None if watch is None else watch.heard(event.batch)
        if heard is not None:
            self._late[table] = self._late.get(table, LateCount()) + heard.count
            event = replace(event, late=heard.count)
        if table in self._ages:
            rows = latencies(self._ages[table].values(), event.duration_ms)
            # Of several sources Spark tells the oldest row of one.
            oldest_ms = event.latency_max_ms if len(self._ages[table]) == 1 else None
            p50_ms, p99_ms = (quantile(rows, share, oldest_ms=oldest_ms) for share in (0.5, 0.99))
            event = replace(event, latency_rows=rows, latency_p50_ms=p50_ms, latency_p99_ms=p99_ms)
        if table in self._handed:
            # Asked for every batch, so that none is remembered.
            handed = self._handed[table].rows(event.batch)
            event = replace(
                event, output_rows=handed if event.output_rows is None else event.output_rows
            )
        ears = self._ears.get(table, {})
        counts = {source: ear.counter.since_last() for source, ear in ears.items()}
        rejected = {source: ear.heard(event.batch) for source, ear in ears.items()}
        self._rejected[table] = self.rejected(table) + sum(counts.values())
        return Told(replace(event, rejected=counts), heard, watch, rejected)

    def late(self, table: str) -> LateCount | None:
        """A table's rows by how they stood to the watermark; None where no row can be late."""
        return self._late.get(table, LateCount()) if table in self._watches else None

    def rejected(self, table: str) -> int:
        return self._rejected.get(table, 0)

    def save(self) -> None:
        """Keeps what was measured, for the doctor and for the next run."""
        self._meter.save()
