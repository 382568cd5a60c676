"""Real servers: Kafka, PostgreSQL, Redis, and jars from a real repository server."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from redis import AuthenticationError, Redis

from headwater.errors import JarsUnavailable, PortTaken
from headwater.local import services
from headwater.local.cache import cache_folder
from headwater.local.jars import JarSet, jar_paths, locked_jars
from headwater.local.ports import HOST, is_listening
from headwater.local.processes import mark, wait_until
from headwater.local.services import ServiceHealth


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A project folder that any user may pass through, as PostgreSQL needs when root starts it."""
    project = Path(tempfile.mkdtemp(prefix="headwater services "))
    project.chmod(0o755)
    yield project / ".headwater"
    for name in services.SERVICES:
        services.down(project / ".headwater", name)
    shutil.rmtree(project)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: mark(pid) is None, timeout_s=120)


def health(folder: Path, name: str) -> ServiceHealth:
    return next(known.health for known in services.status(folder) if known.name == name)


def write(bootstrap: str, topic: str, value: bytes) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def first_value(bootstrap: str, topic: str) -> bytes | None:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "reader"}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        return message.value() if message else None
    finally:
        consumer.close()


def query(folder: Path, text: str) -> list[tuple[Any, ...]]:
    known = services.connection(folder, "postgres")
    password = Path(known["password"].removeprefix("file:")).read_text().strip()
    url = known["url"].removeprefix("jdbc:")
    with psycopg.connect(url, user=known["user"], password=password) as session:
        cursor = session.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


def test_a_killed_broker_comes_back_with_its_records_and_stops_cleanly(folder: Path) -> None:
    first = services.up(folder, "kafka")
    write(first.address, "orders", b"kept")
    assert services.up(folder, "kafka").pid == first.pid
    assert services.connection(folder, "kafka") == {"bootstrap_servers": first.address}
    kill(first.pid)
    assert health(folder, "kafka") is ServiceHealth.CRASHED
    second = services.up(folder, "kafka")
    assert (second.address, second.was_running) == (first.address, False)
    assert first_value(second.address, "orders") == b"kept"
    assert services.down(folder, "kafka")
    assert mark(second.pid) is None
    assert not is_listening(int(second.address.rpartition(":")[2]))
    assert (folder / "services" / "kafka" / "data" / ".kafka_cleanshutdown").exists()


def test_a_killed_server_comes_back_with_its_rows(folder: Path) -> None:
    first = services.up(folder, "postgres")
    query(folder, "create table orders as select 42 as id")
    kill(first.pid)
    assert health(folder, "postgres") is ServiceHealth.CRASHED
    second = services.up(folder, "postgres")
    assert second.address == first.address
    assert query(folder, "select id from orders") == [(42,)]


def test_a_killed_redis_comes_back_with_its_hashes_and_its_password(folder: Path) -> None:
    first = services.up(folder, "redis")
    known = services.connection(folder, "redis")
    password = Path(known["password"].removeprefix("file:")).read_text().strip()
    with Redis.from_url(known["url"], password=password, decode_responses=True) as client:
        client.hset("orders:1", "amount", "42")
    assert services.up(folder, "redis").pid == first.pid
    kill(first.pid)
    assert health(folder, "redis") is ServiceHealth.CRASHED
    second = services.up(folder, "redis")
    assert second.address == first.address
    with Redis.from_url(known["url"], password=password, decode_responses=True) as client:
        assert client.hgetall("orders:1") == {"amount": "42"}
    with Redis.from_url(known["url"]) as client, pytest.raises(AuthenticationError):
        client.ping()
    assert services.down(folder, "redis")
    assert mark(second.pid) is None


def test_a_redis_whose_starter_died_is_found_by_its_command(folder: Path) -> None:
    first = services.up(folder, "redis")
    (folder / "services" / "redis" / "state.json").unlink()
    second = services.up(folder, "redis")
    assert (mark(first.pid), second.was_running) == (None, False)
    assert services.down(folder, "redis")


def test_the_server_refuses_a_wrong_password(folder: Path) -> None:
    services.up(folder, "postgres")
    url = services.connection(folder, "postgres")["url"].removeprefix("jdbc:")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url, user="headwater", password="guessed")
    password = folder / "services" / "postgres" / "password"
    assert password.stat().st_mode & 0o077 == 0


def test_a_server_with_clients_stops_and_leaves_no_process(folder: Path) -> None:
    running = services.up(folder, "postgres")
    known = services.connection(folder, "postgres")
    password = Path(known["password"].removeprefix("file:")).read_text().strip()
    client = psycopg.connect(
        known["url"].removeprefix("jdbc:"), user="headwater", password=password
    )
    backend = client.info.backend_pid
    assert services.down(folder, "postgres")
    assert mark(running.pid) is None
    assert mark(backend) is None
    client.close()


def test_an_asked_port_that_another_program_holds_is_refused(folder: Path) -> None:
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken) as caught:
            services.up(folder, "postgres", port=port)
    if shutil.which("lsof"):
        assert f"(process {os.getpid()})" in str(caught.value)
    assert services.address(folder, "postgres") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
def test_root_runs_the_server_as_nobody_even_for_a_private_project(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    running = services.up(tmp_path, "postgres")
    elsewhere = Path((tmp_path / "services" / "postgres" / "elsewhere").read_text().strip())
    try:
        assert Path(f"/proc/{running.pid}").stat().st_uid != 0
        assert query(tmp_path, "select 1") == [(1,)]
    finally:
        services.down(tmp_path, "postgres")
        shutil.rmtree(elsewhere)


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "jars"


def ivy_settings(file: Path, port: int) -> str:
    resolver = f'm2compatible="true" usepoms="false" root="http://{HOST}:{port}/"'
    file.write_text(
        '<ivysettings><settings defaultResolver="here"/><property name="ivy.checksums" value=""/>'
        f'<resolvers><ibiblio name="here" {resolver}/></resolvers></ivysettings>'
    )
    return str(file)


def test_a_missing_jar_without_network_is_named(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server((HOST, 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("HEADWATER_IVY_SETTINGS", ivy_settings(tmp_path / "ivy.xml", port))
    with pytest.raises(JarsUnavailable) as caught:
        jar_paths([JarSet.POSTGRES])
    (jar,) = locked_jars()[JarSet.POSTGRES]
    assert jar.file_name in str(caught.value)
    assert str(empty_cache) in str(caught.value)
    assert "refused" in str(caught.value)


def test_jars_come_from_the_repository_that_the_machine_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (original,) = jar_paths([JarSet.POSTGRES])
    (jar,) = locked_jars()[JarSet.POSTGRES]
    shelf = tmp_path.joinpath("repository", *jar.group.split("."), jar.artifact, jar.version)
    shelf.mkdir(parents=True)
    shutil.copy(original, shelf)
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=str(tmp_path / "repository"))
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    with ThreadingHTTPServer((HOST, 0), handler) as server:
        settings = ivy_settings(tmp_path / "ivy.xml", server.server_port)
        monkeypatch.setenv("HEADWATER_IVY_SETTINGS", settings)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        (fetched,) = jar_paths([JarSet.POSTGRES])
        server.shutdown()
        thread.join()
    assert fetched == cache_folder() / "jars" / jar.file_name
    assert fetched.read_bytes() == original.read_bytes()
