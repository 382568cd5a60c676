"""Spark Connect in the driver of a running pipeline: notebooks and `pyspark` clients attach to it.

The endpoint listens on this machine only and asks for a token. A client has a session of its own,
so the pipeline's tables are there as global temporary views: `global_temp.<table>`.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from headwater.events import (
    BatchCompleted,
    Event,
    LateCaptured,
    PipelineStopped,
    RejectedCaptured,
)
from headwater.graph import Graph
from headwater.local.ports import HOST
from headwater.runtime.about import place_of
from headwater.runtime.storage import Storage
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"


def connect_settings(port: int, token: str, *, plugins: str | None = None) -> dict[str, str]:
    """Settings of a session that serves Spark Connect, beside other plugins."""
    return {
        "spark.plugins": ",".join(filter(None, [plugins, _PLUGIN])),
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.authenticate.token": token,
    }


def connect_address(port: int, token: str) -> str:
    """What a client gives to `SparkSession.builder.remote`."""
    # The client takes a token without TLS for this name only.
    return f"sc://localhost:{port}/;token={token}"


class ConnectViews:
    """Makes a view of each table once it has rows, in a thread of its own."""

    def __init__(self, spark: SparkSession, graph: Graph, settings: Settings) -> None:
        self._spark = spark
        self._tables = graph.tables
        self._settings = settings
        self._storage = Storage(settings.storage_root, graph.definitions.pipeline)
        self._wanted: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._known: set[str] = set()
        self._thread = threading.Thread(target=self._work, name="headwater-connect", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def report(self, event: Event) -> None:
        match event:
            case BatchCompleted(table=table, input_rows=rows) if rows and table not in self._known:
                self._wanted.put(table)
            case LateCaptured(table=table) if f"{table}__late" not in self._known:
                self._wanted.put(f"{table}__late")
            case RejectedCaptured(source=source) if f"{source}__rejected" not in self._known:
                self._wanted.put(f"{source}__rejected")
            case PipelineStopped():
                self._wanted.put(None)

    def _work(self) -> None:
        while (name := self._wanted.get()) is not None:
            if name in self._known:
                continue
            try:
                self._make(name)
            except Exception:
                # Nothing is written yet; the next batch of the table asks again.
                continue
            self._known.add(name)

    def _make(self, name: str) -> None:
        """Sinks outside Spark's reach by path have no view; a client reads them as it likes."""
        sink = self._tables[name].into if name in self._tables else None
        place = place_of(name, sink, self._settings, self._storage)
        if place["kind"] == "delta":
            # Text in place of a DataFrame: it is analysed at each use, so new files are seen.
            text = f"SELECT * FROM delta.`{place['path']}`"
            self._spark.sql(f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW `{name}` AS {text}")
        elif place["kind"] == "memory":
            self._spark.table(name).createOrReplaceGlobalTempView(name)
