"""Sends clicks to the topic `clicks`, from one number up to another: `python fill.py 0 250`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Producer

from headwater.connectors.kafka import create_topic
from headwater.settings import Connection, load

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
PAGES = ("home", "news", "shop", "home", "help", "home", "news")


def click(number: int) -> dict[str, str]:
    """One click every 30 seconds; every tenth comes an hour and a half late."""
    late = timedelta(minutes=90) if number % 10 == 9 else timedelta()
    at = START + timedelta(seconds=30 * number) - late
    return {"page": PAGES[number % len(PAGES)], "at": at.isoformat()}


def fill(connection: Connection, first: int, end: int) -> None:
    create_topic(connection, "clicks")
    producer = Producer({"bootstrap.servers": connection.require("bootstrap_servers")})
    for number in range(first, end):
        producer.produce("clicks", json.dumps(click(number)))
    if producer.flush(30):
        raise SystemExit("the broker did not take the clicks")


if __name__ == "__main__":
    first, end = map(int, sys.argv[1:])
    fill(load(Path(__file__).parent).connection("kafka"), first, end)
    print(f"Sent {end - first} clicks.")
