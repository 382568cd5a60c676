"""Clients of a Kafka cluster: how Spark and this process reach it, topics and their ends."""

from __future__ import annotations

import time
from typing import Any

from headwater.errors import BrokerUnreachable, TopicMissing
from headwater.local.processes import wait_until
from headwater.settings import Connection

_CHECK_S = 5.0
_PAUSE_S = 0.1
_NO_LEADER = (5, 6)
"""LEADER_NOT_AVAILABLE, NOT_LEADER_FOR_PARTITION."""
_clients: dict[tuple[tuple[str, str], ...], Any] = {}


def java_options(connection: Connection) -> dict[str, str]:
    """Spark options of a connection: `security_protocol` is Kafka's `security.protocol`."""
    connection.require("bootstrap_servers")
    named = {
        name: connection.require(name)
        for name in connection.options
        if name not in ("username", "password")
    }
    options = {f"kafka.{name.replace('_', '.')}": value for name, value in named.items()}
    username = connection.get("username")
    if username is not None:
        mechanism = options.setdefault("kafka.sasl.mechanism", "PLAIN")
        options.setdefault("kafka.security.protocol", "SASL_SSL")
        options["kafka.sasl.jaas.config"] = _jaas(
            mechanism, username, connection.require("password")
        )
    return options


def _jaas(mechanism: str, username: str, password: str) -> str:
    kind = "scram.Scram" if mechanism.startswith("SCRAM") else "plain.Plain"
    escaped = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (username, password)]
    return (
        f"org.apache.kafka.common.security.{kind}LoginModule required "
        f'username="{escaped[0]}" password="{escaped[1]}";'
    )


def _client_settings(connection: Connection) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": connection.require("bootstrap_servers"),
        "socket.connection.setup.timeout.ms": int(_CHECK_S * 1000),
        # librdkafka would print refused connections on standard error.
        "log_level": 0,
        "error_cb": lambda error: None,
    }
    shared = ("security_protocol", "sasl_mechanism", "ssl_ca_location")
    for name in shared:
        if (value := connection.get(name)) is not None:
            settings[name.replace("_", ".")] = value
    if (username := connection.get("username")) is not None:
        settings.setdefault("security.protocol", "SASL_SSL")
        settings.setdefault("sasl.mechanism", "PLAIN")
        settings |= {"sasl.username": username, "sasl.password": connection.require("password")}
    return settings


def admin_client(connection: Connection) -> Any:
    """One per address and login: to connect takes longer than to ask."""
    from confluent_kafka.admin import AdminClient

    settings = _client_settings(connection)
    texts = {name: str(value) for name, value in settings.items() if name != "error_cb"}
    known = tuple(sorted(texts.items()))
    if known not in _clients:
        _clients[known] = AdminClient(settings)
    return _clients[known]


def topics_of(connection: Connection) -> dict[str, int]:
    """The cluster's topics with their numbers of partitions; raises BrokerUnreachable."""
    from confluent_kafka import KafkaException

    try:
        metadata = admin_client(connection).list_topics(timeout=_CHECK_S)
    except KafkaException as failure:
        raise _unreachable(connection, failure) from failure
    return {name: len(topic.partitions) for name, topic in metadata.topics.items()}


def _unreachable(connection: Connection, failure: Exception) -> BrokerUnreachable:
    return BrokerUnreachable(
        address=connection.require("bootstrap_servers"),
        origin=connection.origin,
        reason=str(failure.args[0].str()),
        connection=connection.name,
    )


def create_topic(connection: Connection, topic: str, *, partitions: int = 1) -> None:
    """Creates a topic and returns when the broker knows it; one that exists is left as it is."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    # The answers die with the client, which therefore lives until they are there.
    client = admin_client(connection)
    created = client.create_topics([NewTopic(topic, num_partitions=partitions)])
    try:
        created[topic].result(timeout=_CHECK_S * 2)
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    # The controller answers; the broker that is asked next may hear of it a moment later.
    wait_until(lambda: topic in topics_of(connection), timeout_s=_CHECK_S * 2)


def partition_count(connection: Connection, topic: str) -> int:
    """How many partitions a topic has; raises BrokerUnreachable, TopicMissing."""
    found = topics_of(connection)
    if topic not in found:
        address = connection.require("bootstrap_servers")
        raise TopicMissing(topic=topic, topics=found, address=address)
    return found[topic]


def end_offsets(connection: Connection, topic: str) -> dict[int, int]:
    """Per partition, the offset that the next record will get; asks the broker.

    Raises BrokerUnreachable, TopicMissing.
    """
    from confluent_kafka import admin

    return _offsets(connection, topic, admin.OffsetSpec.latest())  # type: ignore[attr-defined, no-untyped-call]  # not in the client's stubs


def begin_offsets(connection: Connection, topic: str) -> dict[int, int]:
    """Per partition, the offset of the oldest record that is there."""
    from confluent_kafka import admin

    return _offsets(connection, topic, admin.OffsetSpec.earliest())  # type: ignore[attr-defined, no-untyped-call]  # not in the client's stubs


def _offsets(connection: Connection, topic: str, which: Any) -> dict[int, int]:
    from confluent_kafka import KafkaException, TopicPartition

    partitions = [TopicPartition(topic, p) for p in range(partition_count(connection, topic))]
    client = admin_client(connection)
    deadline = time.monotonic() + _CHECK_S
    while True:
        asked = client.list_offsets(dict.fromkeys(partitions, which), request_timeout=_CHECK_S)
        try:
            return {one.partition: answer.result().offset for one, answer in asked.items()}
        except KafkaException as failure:
            # A topic that was just made, or a broker that restarts, has no leader for a moment.
            if failure.args[0].code() not in _NO_LEADER or time.monotonic() > deadline:
                raise _unreachable(connection, failure) from failure
            time.sleep(_PAUSE_S)
