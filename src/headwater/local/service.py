"""What a local service is: the one interface below which each server has its file."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headwater.events import Report
from headwater.local.processes import Account

WARNINGS = """\
status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c{1})%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
"""
"""How a server on Java logs: its warnings, to its standard output."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a server: it stays in the foreground and writes to its standard output."""

    argv: list[str]
    environment: Mapping[str, str]
    folder: Path
    account: Account | None = None


class Service(ABC):
    """One server that can run in the background of this machine.

    Instances hold no state: everything is below `home`, the service's own folder, which exists
    when a method is called. Only one process at a time calls `prepare` and `launch` for a home.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    title: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    start_timeout_s: ClassVar[float] = 120.0
    stop_timeout_s: ClassVar[float] = 20.0

    @abstractmethod
    def prepare(self, home: Path, *, report: Report) -> None:
        """Fetch programs and lay out data, once; called before every start, cheap when done."""

    @abstractmethod
    def launch(self, home: Path, port: int) -> Launch:
        """How to listen on `port`; may write configuration files."""

    @abstractmethod
    def is_ready(self, home: Path, port: int) -> bool:
        """Ask the server a real question in its own protocol, within two seconds."""

    @abstractmethod
    def connection(self, home: Path, port: int) -> dict[str, str]:
        """What a client needs, by the connector's setting names; secrets as references only."""
