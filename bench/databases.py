"""A million rows into PostgreSQL: exactly once against Spark's own JDBC append, in one session.

Every round writes the same rows each way into a new table, so the rounds are the pairs.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure
from headwater.connectors import postgres
from headwater.connectors.interface import WriteRequest
from headwater.definitions import OutputMode
from headwater.ledger.databases import DatabaseLedger
from headwater.local import services
from headwater.runtime.session import open_session
from headwater.settings import Connection, Settings

ROWS = 1_000_000


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    # Not below a folder that only root may pass through: PostgreSQL runs as another user.
    folder = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    folder.chmod(0o755)
    services.up(folder, "postgres")
    try:
        connection = Connection("postgres", services.connection(folder, "postgres"), "bench")
        return _measured(folder, connection, pairs)
    finally:
        services.down(folder, "postgres")
        shutil.rmtree(folder, ignore_errors=True)


def _measured(folder: Path, connection: Connection, pairs: int) -> tuple[list[Figure], Any]:
    sink = postgres("any")
    spark = open_session(Settings(folder), sink.jars)
    try:
        rows = spark.range(0, ROWS, 1, 2).selectExpr(
            "id", "concat('device-', id % 1000) AS device", "rand(1) * 100 AS celsius"
        )
        rows = rows.localCheckpoint()
        ways: dict[str, Callable[[str], None]] = {
            "jdbc": lambda table: _plain(rows, table, connection),
            "append": lambda table: _write(rows, table, connection, OutputMode.APPEND),
            "upsert": lambda table: _write(rows, table, connection, OutputMode.UPDATE),
            "unledgered": lambda table: _without_ledger(rows, table, connection),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for round_number in range(-1, pairs):
            for name, write in ways.items():
                began = time.perf_counter()
                write(f"{name}_{round_number + 1}")
                if round_number >= 0:
                    times[name].append(time.perf_counter() - began)
    finally:
        spark.stop()

    def ratios(one: str, other: str) -> list[float]:
        return [b / a for a, b in zip(times[one], times[other], strict=True)]

    figures = [
        figure("exactly-once append to JDBC append", ratios("append", "jdbc"), 0.9, at_least=True),
        figure(
            "upsert to the same without ledger", ratios("upsert", "unledgered"), 0.85, at_least=True
        ),
        figure("exactly-once upsert to JDBC append", ratios("upsert", "jdbc"), 0.4, at_least=True),
    ]
    return figures, {"seconds": times, "rows": ROWS}


def _write(rows: Any, table: str, connection: Connection, mode: OutputMode) -> None:
    key = ("id",) if mode is OutputMode.UPDATE else ()
    request = WriteRequest(table, mode, key, connection, Path(), managed="")
    sink = postgres(table)
    sink.prepare(rows.sparkSession, rows._jdf.schema().toDDL(), request)
    sink.write_increment(rows, request, query=table, batch=0)


def _without_ledger(rows: Any, table: str, connection: Connection) -> None:
    advance, last = DatabaseLedger.advance, DatabaseLedger.last
    DatabaseLedger.advance = lambda self, session, batch: True  # type: ignore[method-assign]
    DatabaseLedger.last = lambda self, session: -1  # type: ignore[method-assign]
    try:
        _write(rows, table, connection, OutputMode.UPDATE)
    finally:
        DatabaseLedger.advance, DatabaseLedger.last = advance, last  # type: ignore[method-assign]


def _plain(rows: Any, table: str, connection: Connection) -> None:
    options = {name: connection.require(name) for name in connection.options}
    driver = {"driver": "org.postgresql.Driver", "dbtable": table}
    rows.write.format("jdbc").options(**options, **driver).mode("append").save()
