"""Sends four orders to the topic `orders` of the broker in headwater.toml, or the local one."""

from __future__ import annotations

import json
import time
from pathlib import Path

from confluent_kafka import Producer

from headwater.connectors.kafka import create_topic
from headwater.settings import Connection, load

ORDERS = [("ada", 12.5), ("bert", 7.0), ("ada", 30.0), ("cleo", 4.25)]


def fill(connection: Connection) -> None:
    create_topic(connection, "orders")
    now_ms = int(time.time()) * 1000
    producer = Producer({"bootstrap.servers": connection.require("bootstrap_servers")})
    for number, (customer, amount) in enumerate(ORDERS):
        producer.produce(
            "orders",
            key=customer,
            value=json.dumps({"customer": customer, "amount": amount}),
            headers={"shop": "north" if number % 2 == 0 else "south"},
            timestamp=now_ms + 1000 * number,
        )
    if producer.flush(30):
        raise SystemExit("the broker did not take the orders")


if __name__ == "__main__":
    fill(load(Path(__file__).parent).connection("kafka"))
    print(f"Sent {len(ORDERS)} orders.")
