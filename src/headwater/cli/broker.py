"""The Kafka broker of the demo: started or found, and stopped again by who started it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.events import Report
from headwater.local import services
from headwater.settings import Connection

_TOPIC_S = 15.0
_POLL_S = 0.1


@contextmanager
def demo_broker(folder: Path, *, keeps: bool, report: Report) -> Iterator[str]:
    """The address of a running broker.

    One that the user had running stays. A note says which one a demo started, so that the demo
    after a `kill -9` uses the survivor and ends it.
    """
    found = services.up(folder, "kafka", report=report)
    note = folder / "services" / "kafka" / "started-by-demo"
    is_ours = not found.was_running or (note.exists() and note.read_text() == str(found.pid))
    if is_ours and not keeps:
        note.write_text(str(found.pid))
    else:
        note.unlink(missing_ok=True)
    try:
        yield found.address
    finally:
        if is_ours and not keeps:
            services.down(folder, "kafka", report=report)
            note.unlink(missing_ok=True)


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
