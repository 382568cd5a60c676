"""A real Kafka broker on this machine: one node in KRaft mode, on Java and cached jars."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

from headwater.errors import ServiceFailed
from headwater.events import Report
from headwater.local.cache import replace_text
from headwater.local.jars import JarSet, jar_paths
from headwater.local.java import find_java
from headwater.local.ports import HOST, free_port
from headwater.local.service import WARNINGS, Launch, Service


class Kafka(Service):
    name = "kafka"
    version = "4.3.1"
    title = "Kafka broker"

    def prepare(self, home: Path, *, report: Report) -> None:
        jar_paths([JarSet.KAFKA_BROKER], report=report)
        replace_text(home / "log4j2.properties", _LOGGING)

    def launch(self, home: Path, port: int) -> Launch:
        controller = free_port(avoid=frozenset({port}))
        replace_text(home / "server.properties", _server_properties(home, port, controller))
        if not (home / "formatted").exists():
            self._format(home)
        argv = [*_java(home, heap="512m"), "kafka.Kafka", str(home / "server.properties")]
        return Launch(argv, environment=_environment(), folder=home)

    def _format(self, home: Path) -> None:
        # Without the mark no broker has run on this data: what is there is half a format.
        shutil.rmtree(home / "data", ignore_errors=True)
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        argv = [*_java(home, heap="128m"), "kafka.tools.StorageTool", "format"]
        # One id in 64 begins with a hyphen, which as a word of its own would be an option.
        argv += [f"--cluster-id={cluster}", "-c", str(home / "server.properties")]
        run = subprocess.run(
            argv, capture_output=True, text=True, env=_environment(), cwd=home, check=False
        )
        if run.returncode != 0:
            raise ServiceFailed(
                service=self.name,
                reason="its data folder could not be formatted",
                log=str(home / "log"),
                last_lines=(run.stdout + run.stderr).splitlines()[-10:],
            )
        replace_text(home / "formatted", cluster + "\n")

    def is_ready(self, home: Path, port: int) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        # Refused connections are expected while the broker starts; librdkafka would print them.
        settings: dict[str, Any] = {
            "bootstrap.servers": f"{HOST}:{port}",
            "log_level": 0,
            "error_cb": lambda error: None,
            "socket.timeout.ms": 2000,
        }
        client = AdminClient(settings)
        try:
            return len(client.list_topics(timeout=2).brokers) == 1
        except KafkaException:
            return False

    def connection(self, home: Path, port: int) -> dict[str, str]:
        return {"bootstrap_servers": f"{HOST}:{port}"}


def _java(home: Path, *, heap: str) -> list[str]:
    classpath = os.pathsep.join(str(jar) for jar in jar_paths([JarSet.KAFKA_BROKER]))
    return [
        str(find_java().executable),
        f"-Xmx{heap}",
        "-XX:TieredStopAtLevel=1" if heap == "128m" else "-XX:MaxGCPauseMillis=20",
        f"-Dlog4j2.configurationFile={(home / 'log4j2.properties').as_uri()}",
        "-cp",
        classpath,
    ]


def _environment() -> dict[str, str]:
    # CLASSPATH and options meant for other Java programs would leak into the broker.
    dropped = ("CLASSPATH", "KAFKA_OPTS", "KAFKA_HEAP_OPTS")
    return {name: value for name, value in os.environ.items() if name not in dropped}


def _server_properties(home: Path, port: int, controller: int) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(home / "data"),
        # Retention goes by record time: replayed history would be gone within a minute.
        "log.retention.ms": "-1",
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        # A killed broker may come back only when its old session is over: 9 s by default.
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "1000",
        # The default of 128 MB is a quarter of this broker's heap.
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }
    return "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(value: str) -> str:
    """`value` as java.util.Properties reads it: Latin-1 with escapes."""
    plain = value.replace("\\", "\\\\")
    return plain.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")


_LOGGING = f"""\
{WARNINGS}\
logger.start.name=kafka.server.KafkaRaftServer
logger.start.level=info
"""
