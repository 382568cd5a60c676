"""The worked examples that talk to a socket or to a real broker."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from confluent_kafka import Consumer, Message

from headwater.cli.app import Application, load_app
from headwater.local import ports
from headwater.settings import Connection

pytestmark = pytest.mark.usefixtures("spark")

EXAMPLES = Path(__file__).parents[2] / "examples"
Load = Callable[..., Application]


def batches(text: str) -> list[str]:
    return [part.strip(" -\n") for part in text.split("Batch: ")[1:]]


def at_any_time(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<time>", text)


def received(connection: Connection, topic: str, count: int) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": connection.require("bootstrap_servers"),
            "group.id": f"reads-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found = [message for message in consumer.consume(count, timeout=120) if not message.error()]
    consumer.close()
    return found


@pytest.fixture(scope="module")
def orders(kafka_connection: Connection) -> ModuleType:
    """The topic of the Kafka example, filled once by its own script."""
    spec = importlib.util.spec_from_file_location("fill", EXAMPLES / "kafka/fill.py")
    assert spec is not None
    assert spec.loader is not None
    fill = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fill)
    fill.fill(kafka_connection)
    return fill


def test_words_from_a_socket_are_counted(
    example: Load, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD_COUNT_PORT", str(ports.free_port()))
    command = [sys.executable, str(EXAMPLES / "word_count/send.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert "Listening" in server.stdout.readline()
        run = example("word_count", app="over_socket.py").pipeline.start(trigger="100 milliseconds")
        query = run["words"].streaming_query
        query.processAllAvailable()
        server.stdin.write("the river runs\nto the sea\n")
        server.stdin.flush()
        printed = capsys.readouterr().out
        while "river" not in printed:
            query.processAllAvailable()
            assert run.is_active
            printed += capsys.readouterr().out
        assert "|  the|    2|" in batches(printed)[-1]
        run.stop()
        server.stdin.close()


def test_every_field_of_a_record_reaches_the_console_and_the_copy(
    example: Load,
    kafka_connection: Connection,
    orders: ModuleType,
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = example("kafka", connection=kafka_connection)
    app.pipeline.refresh()
    [printed] = batches(capsys.readouterr().out)
    assert at_any_time(printed) in at_any_time((EXAMPLES / "kafka/README.md").read_text())
    copies = received(kafka_connection, "orders-copy", len(orders.ORDERS))
    assert [c.key().decode() for c in copies] == [customer for customer, _ in orders.ORDERS]
    assert [json.loads(c.value())["amount"] for c in copies] == [a for _, a in orders.ORDERS]
    origins = [dict(c.headers())["origin"] for c in copies]
    assert [json.loads(origin)["offset"] for origin in origins] == [0, 1, 2, 3]
    assert [dict(c.headers())["shop"] for c in copies] == [b"north", b"south"] * 2


@pytest.mark.usefixtures("orders")
def test_sql_over_a_topic_is_an_application_of_its_own(
    example: Load, kafka_connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    app = example("kafka", app="sql", connection=kafka_connection)
    app.pipeline.refresh()
    [printed] = batches(capsys.readouterr().out)
    assert printed in (EXAMPLES / "kafka/README.md").read_text()


def test_two_layers_merged_are_the_batch_over_everything(
    example: Load, kafka_connection: Connection, redis_connection: Connection
) -> None:
    speed = example("lambda")
    folder = speed.settings.folder
    batch = load_app(str(folder / "batch.py"))
    connections = {c.name: c.options for c in (kafka_connection, redis_connection)}
    for layer in (speed, batch):
        layer.pipeline.use_settings(replace(layer.settings, connections=connections))
    import fill
    import query

    with contextlib.closing(query.connect(redis_connection)) as redis:
        redis.flushdb()
        fill.fill(kafka_connection, 0, 250)
        speed.pipeline.refresh()
        batch.pipeline.replace()
        fill.fill(kafka_connection, 250, 380)
        speed.pipeline.refresh()
        merged = query.answer(redis)
        assert query.table(merged) in (EXAMPLES / "lambda/README.md").read_text()
        truth = query.everything(speed.pipeline)
        assert {cell: views.merged for cell, views in merged.items()} == truth
        assert sum(truth.values()) == 380
        assert sum(views.by_batch for views in merged.values()) == 200
        # Without the mark of what is covered, clicks would count twice.
        for key in redis.scan_iter("batch:*"):
            redis.hset(key, "covered", -1)
        assert sum(views.merged for views in query.answer(redis).values()) == 580
        batch.pipeline.replace()
        later = query.answer(redis)
        assert sum(views.by_batch for views in later.values()) == 300
        assert {cell: views.merged for cell, views in later.items()} == truth


def test_every_row_arrives_under_every_trigger_with_a_finite_latency(
    example: Load, kafka_connection: Connection
) -> None:
    example("latency", connection=kafka_connection)
    import latency

    found = [
        latency.measure(kafka_connection, name, rate=100, seconds=1.5, warm_up_s=0, burst=2000)
        for name in latency.WAYS
    ]
    assert [one.trigger for one in found] == list(latency.WAYS)
    assert all(one.rows == 150 for one in found)
    assert all(math.isfinite(one.p99_ms) and 0 < one.p50_ms <= one.p99_ms for one in found)


def test_the_stored_latencies_are_those_of_the_readme() -> None:
    stored = json.loads((EXAMPLES / "latency/result.json").read_text())
    readme = (EXAMPLES / "latency/README.md").read_text()
    assert {"cores", "spark", "kafka"} <= stored["machine"].keys()
    for one in stored["results"]:
        line = next(line for line in readme.splitlines() if line.startswith(one["trigger"]))
        told = [*(str(one[name]) for name in ("p50_ms", "p99_ms", "most_ms"))]
        assert [*told, f"{one['burst_rows_per_s']:,}"] == line.split()[2:]


def test_the_batch_program_of_one_function_prints_what_its_readme_shows() -> None:
    folder = EXAMPLES / "one_function"
    done = subprocess.run(
        [sys.executable, "batch.py"], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert done.stdout.strip() in (folder / "README.md").read_text()
