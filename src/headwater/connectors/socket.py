"""Lines from a TCP server."""

from __future__ import annotations

import socket as sockets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from headwater.connectors.interface import MICRO_BATCH, Connector, ReadRequest, option_texts
from headwater.definitions import TriggerKind
from headwater.errors import InvalidConnector, NotReadable, SocketUnreachable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHECK_S = 5.0


@dataclass(frozen=True, slots=True)
class Socket(Connector):
    """Lines of text that a server sends. See `socket`."""

    system: ClassVar[str] = "socket"
    reads_streams: ClassVar[bool] = True
    read_triggers: ClassVar[frozenset[TriggerKind]] = MICRO_BATCH | {TriggerKind.CONTINUOUS}

    host: str
    port: int
    has_timestamp: bool = False
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def read_stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        options = {
            "host": self.host,
            "port": str(self.port),
            "includeTimestamp": str(self.has_timestamp).lower(),
            **self.options,
        }
        return spark.readStream.format("socket").options(**options).load()

    def read_batch(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        raise NotReadable(
            "socket",
            "batch",
            found="lines that a server sends once and nobody keeps",
            remedy="run it as a stream, or keep the lines in files and read those with text(…)",
        )

    def check_readable(self, request: ReadRequest) -> None:
        try:
            sockets.create_connection((self.host, self.port), timeout=_CHECK_S).close()
        except OSError as failure:
            raise SocketUnreachable(
                name=request.name, host=self.host, port=self.port, reason=str(failure)
            ) from failure

    def describe(self) -> str:
        return f"socket {self.host}:{self.port}"


def socket(
    host: str,
    port: int,
    *,
    timestamp: bool = False,
    options: Mapping[str, object] | None = None,
) -> Socket:
    """A source of the lines that a TCP server sends: the column `value string`, and `timestamp
    timestamp`, the time of arrival, on request.

    Not replayable, so tables over it are at-least-once at best, and lines received before a crash
    may be lost. Each query opens a connection of its own, after one that only checks the address.
    There is no batch form.

    >>> socket("localhost", 9999).describe()
    'socket localhost:9999'
    """
    if not 0 < port < 65536:
        raise InvalidConnector("socket", f"port={port}", expected="a number from 1 to 65535")
    return Socket(host, port, timestamp, option_texts(options))
