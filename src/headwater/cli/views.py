"""What a running pipeline shows: a live view on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from typing import Protocol

from headwater.events import Event
from headwater.observe.lines import LinePrinter
from headwater.observe.terminal import LiveView


class View(Protocol):
    """Takes events from any thread; the rest is called from the main one."""

    def start(self) -> None: ...
    def report(self, event: Event) -> None: ...
    def say(self, text: str) -> None: ...
    def complain(self, text: str) -> None: ...
    def close(self) -> None: ...


class Lines:
    """One line per batch; failures go to standard error."""

    def __init__(self) -> None:
        self._printer = LinePrinter()

    def start(self) -> None:
        pass

    def report(self, event: Event) -> None:
        self._printer.report(event)

    def say(self, text: str) -> None:
        print(text, flush=True)

    def complain(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        self._printer.close()


class Terminal:
    """The live view; whatever is said stands above it."""

    def __init__(self, title: str) -> None:
        self._live = LiveView(title)

    def start(self) -> None:
        self._live.start()

    def report(self, event: Event) -> None:
        self._live.report(event)

    def say(self, text: str) -> None:
        self._live.say(text)

    def complain(self, text: str) -> None:
        self._live.say(text)

    def close(self) -> None:
        self._live.close()


def view_for(title: str) -> View:
    return Terminal(title) if sys.stdout.isatty() else Lines()
