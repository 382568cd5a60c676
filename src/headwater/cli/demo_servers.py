"""The servers of the demo: started or found, and stopped again by who started them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headwater.cli.signals import ended_with_us
from headwater.events import Report
from headwater.local import services
from headwater.settings import Connection

_TOPIC_S = 15.0
_POLL_S = 0.1


@contextmanager
def demo_servers(
    folder: Path, names: Sequence[str], *, keeps: bool, report: Report
) -> Iterator[None]:
    """Servers that run meanwhile.

    One that the user had running stays. A note says which one a demo started, so that the demo
    after a `kill -9` uses the survivor and ends it.
    """
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(_server(folder, name, keeps=keeps, report=report))
        yield


@contextmanager
def _server(folder: Path, name: str, *, keeps: bool, report: Report) -> Iterator[None]:
    found = services.up(folder, name, report=report)
    note = folder / "services" / name / "started-by-demo"
    is_ours = not found.was_running or (note.exists() and note.read_text() == str(found.pid))
    if keeps or not is_ours:
        note.unlink(missing_ok=True)
        yield
        return
    note.write_text(str(found.pid))
    try:
        with ended_with_us(found.pid):
            yield
    finally:
        services.down(folder, name, report=report)
        note.unlink(missing_ok=True)


def drop_tables(connection: Connection, tables: Sequence[str]) -> None:
    import psycopg
    from psycopg import sql

    with psycopg.connect(postgres_address(connection)) as database:
        for table in tables:
            database.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(table)))


def postgres_address(connection: Connection) -> str:
    """The address with the account, as other clients than JDBC want it."""
    from psycopg.conninfo import make_conninfo

    return make_conninfo(
        connection.require("url").removeprefix("jdbc:"),
        user=connection.require("user"),
        password=connection.require("password"),
    )


def replace_topic(connection: Connection, topic: str, *, partitions: int) -> None:
    """An empty topic of that name; the broker deletes in the background, so this waits for it."""
    from confluent_kafka.admin import AdminClient

    from headwater.connectors.kafka import create_topic

    servers = connection.require("bootstrap_servers")
    client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    deadline = time.monotonic() + _TOPIC_S
    if topic in client.list_topics(timeout=_TOPIC_S).topics:
        client.delete_topics([topic])[topic].result(timeout=_TOPIC_S)
    while topic in client.list_topics(timeout=_TOPIC_S).topics and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    create_topic(connection, topic, partitions=partitions)
