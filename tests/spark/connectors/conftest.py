"""What the runtime does around a connector, as little as a test needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.connectors.interface import Connector, ReadRequest, WriteRequest
from headwater.definitions import OutputMode


@dataclass(frozen=True)
class Desk:
    """A session and a folder, with requests made from them."""

    spark: SparkSession
    base: Path

    def reads(self, schema: str | None = None, **facts: Any) -> ReadRequest:
        return ReadRequest("signals", schema, None, self.base, **facts)

    def writes(
        self, table: str = "result", mode: OutputMode = OutputMode.APPEND, **facts: Any
    ) -> WriteRequest:
        key = facts.pop("key", ())
        managed = str(self.base / "managed" / table)
        return WriteRequest(table, mode, key, None, self.base, managed, **facts)

    def drain(self, frame: DataFrame, sink: Connector, request: WriteRequest) -> list[Any]:
        """Everything that is there, written in as many batches as it takes; their progress."""
        writer = sink.write_stream(frame, request).outputMode(request.mode.value)
        writer = writer.option("checkpointLocation", str(self.checkpoint(request.table)))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(300)
        return [progress for progress in query.recentProgress if progress.numInputRows]

    def checkpoint(self, table: str) -> Path:
        return self.base / "checkpoints" / table

    def put(self, file: str, *lines: str) -> Path:
        path = self.base / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
        return path


@pytest.fixture
def desk(spark: SparkSession, tmp_path: Path) -> Desk:
    return Desk(spark, tmp_path)
