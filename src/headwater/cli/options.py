"""Options that several commands share, and what they become."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def add_app(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "app",
        nargs="?",
        metavar="APP",
        help="app.py, app.py:object, module:object or a folder of .sql files "
        "(default: app of headwater.toml, else app.py)",
    )


def add_table(parser: argparse.ArgumentParser, about: str) -> None:
    """A table, after the application where one is named: `app.py TABLE`."""
    parser.add_argument(
        "table",
        nargs="+",
        action=_AppAndTable,
        metavar="[APP] TABLE",
        help=f"the application (default as in run), and {about}",
    )
    parser.add_argument("--app", metavar="APP", help="the application, as an option")


class _AppAndTable(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        *before, namespace.table = values
        if len(before) > 1:
            parser.error(f"one table is expected, found {', '.join(values[1:])}")
        if before:
            namespace.app = before[0]


def add_settings(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("settings")
    group.add_argument("--profile", metavar="NAME", help="[profile.NAME] of headwater.toml")
    group.add_argument("--storage", metavar="URI", help="where checkpoints and tables are kept")
    group.add_argument("--master", metavar="URL", help='Spark\'s master, such as "local[2]"')
    group.add_argument("--shuffle-partitions", type=int, metavar="N", help="partitions of state")
    group.add_argument("--driver-memory", metavar="SIZE", help='heap of the driver, such as "4g"')


def flags(args: argparse.Namespace) -> Mapping[str, str | int | None]:
    """The settings that were given on the command line."""
    names = ("profile", "storage", "master", "shuffle_partitions", "driver_memory")
    given = {name: getattr(args, name, None) for name in names}
    return {**given, "stop_deadline_s": getattr(args, "deadline", None)}


def seconds(text: str) -> float:
    """A duration such as "60s" or "2 minutes"; a bare number counts seconds."""
    from headwater.definitions import duration_ms
    from headwater.errors import InvalidDuration

    try:
        return duration_ms(f"{text}s" if text.strip().isdigit() else text) / 1000
    except InvalidDuration:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a duration such as "60s" or "2 minutes"'
        ) from None


def count(text: str) -> int:
    """A whole number above zero."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def whole_seconds(text: str) -> int:
    return max(1, round(seconds(text)))


def names(text: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def port(text: str) -> int:
    """A port of this machine; 0 means one that is free."""
    if not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; expected 0 to 65535")
    return int(text)
