"""Connectors as values: what they state, what they refuse, without a JVM."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import json as jsonlib
import pkgutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater import connectors
from headwater.connectors import (
    console,
    csv,
    delta,
    foreach,
    foreach_batch,
    jdbc,
    json,
    kafka,
    mariadb,
    memory,
    parquet,
    postgres,
    queue,
    rate,
    socket,
    text,
)
from headwater.connectors.interface import (
    ALL_MODES,
    MICRO_BATCH,
    Connector,
    ReadRequest,
    WriteRequest,
    limit_option,
    option_texts,
)
from headwater.definitions import Limit, OutputMode, TriggerKind
from headwater.errors import (
    BrokerUnreachable,
    ConnectionMissing,
    DeltaTableMissing,
    InvalidConnector,
    NotReadable,
    NotWritable,
    PathMissing,
    SocketUnreachable,
    UnknownChoice,
)
from headwater.settings import Connection

NOWHERE = Connection("kafka", {"bootstrap_servers": "127.0.0.1:1"}, "headwater.toml")


def reads(base: Path, **facts: object) -> ReadRequest:
    return ReadRequest("signals", None, None, base, **facts)  # type: ignore[arg-type]


def writes(base: Path) -> WriteRequest:
    return WriteRequest("result", OutputMode.APPEND, (), None, base, str(base / "result"))


def each_connector() -> list[Connector]:
    return [
        *(factory("folder") for factory in (text, csv, json, parquet, delta)),
        *(postgres("t"), mariadb("t"), jdbc("t", connection="db")),
        *(kafka("a"), socket("h", 1), rate()),
        *(memory(), queue([]), console(), foreach(print), foreach_batch(print)),
    ]


def test_importing_connectors_brings_in_neither_spark_nor_clients() -> None:
    heavy = "{'pyspark', 'confluent_kafka', 'pyarrow', 'py4j'}"
    program = f"import sys, headwater.connectors; print({heavy} & sys.modules.keys())"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"


@pytest.mark.parametrize("connector", each_connector(), ids=lambda c: type(c).__name__)
def test_a_connector_is_a_frozen_value_equal_to_its_like(connector: Connector) -> None:
    assert dataclasses.is_dataclass(connector)
    assert dataclasses.replace(connector) == connector
    assert isinstance(hash(connector), int)
    name = dataclasses.fields(connector)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(connector, name, None)


@pytest.mark.parametrize("connector", each_connector(), ids=lambda c: type(c).__name__)
def test_a_sink_has_modes_and_a_reason_and_an_input_none(connector: Connector) -> None:
    modes = connector.modes(has_key=True)
    assert bool(modes) == connector.writes
    assert connector.writes or connector.reads_batches or connector.reads_streams
    for mode in modes:
        found = connector.idempotence(mode, has_key=True)
        assert found.reason
        assert bool(found.condition) == found.is_held


def test_every_public_name_is_a_function_with_an_example() -> None:
    for name in connectors.__all__:
        factory = getattr(connectors, name)
        assert inspect.isfunction(factory), name
        assert ">>>" in (factory.__doc__ or ""), name


def test_the_examples_run() -> None:
    for info in pkgutil.iter_modules(connectors.__path__):
        module = importlib.import_module(f"headwater.connectors.{info.name}")
        assert doctest.testmod(module).failed == 0


def test_modes_are_those_of_the_matrix() -> None:
    append, update, complete = OutputMode.APPEND, OutputMode.UPDATE, OutputMode.COMPLETE
    assert csv("out").modes(has_key=True) == {append}
    assert kafka("out").modes(has_key=False) == console().modes(has_key=False) == ALL_MODES
    assert memory().modes(has_key=True) == {append, complete}
    assert delta().modes(has_key=False) == {append, complete}
    assert delta().modes(has_key=True) == {append, update, complete}
    assert postgres("t").modes(has_key=False) == {append, complete}
    assert postgres("t").modes(has_key=True) == {append, update, complete}
    assert mariadb("t").modes(has_key=True) == {append, update, complete}
    assert jdbc("t", connection="c").modes(has_key=True) == {append, complete}


def test_triggers_are_those_that_spark_accepts() -> None:
    continuous, real_time = TriggerKind.CONTINUOUS, TriggerKind.REAL_TIME
    assert kafka("a").read_triggers == kafka("a").write_triggers == frozenset(TriggerKind)
    assert rate().read_triggers == socket("h", 1).read_triggers == MICRO_BATCH | {continuous}
    assert rate(rows_per_batch=1).read_triggers == csv("in").read_triggers == MICRO_BATCH
    assert console().write_triggers == frozenset(TriggerKind)
    assert memory().write_triggers == MICRO_BATCH | {continuous}
    assert foreach(print).write_triggers == MICRO_BATCH | {real_time}
    assert foreach_batch(print).write_triggers == delta().write_triggers == MICRO_BATCH


def test_option_values_become_texts_and_win() -> None:
    assert option_texts({"header": True, "n": 3}) == {"header": "true", "n": "3"}
    assert csv("in", header=True, options={"header": False}).options["header"] == "false"


def test_a_limit_is_an_option_in_the_units_of_the_connector(tmp_path: Path) -> None:
    files = reads(tmp_path, max_per_batch=Limit.parse("64 MB"))
    assert limit_option(csv("in"), files) == {"maxBytesPerTrigger": str(64 * 1024**2)}
    assert limit_option(csv("in"), reads(tmp_path)) == {"maxFilesPerTrigger": "1000"}
    assert limit_option(kafka("a"), reads(tmp_path)) == {"maxOffsetsPerTrigger": "1000000"}


def test_a_missing_folder_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "signals").mkdir()
    json("signals").check_readable(reads(tmp_path))
    with pytest.raises(PathMissing) as caught:
        json("signal").check_readable(reads(tmp_path))
    assert caught.value.code == "PATH_MISSING"
    assert "did you mean 'signals'?" in str(caught.value)
    with pytest.raises(PathMissing, match="mkdir -p"):
        json("x/y").check_readable(reads(tmp_path))


def test_a_folder_without_a_log_is_no_delta_table(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(DeltaTableMissing) as caught:
        delta("plain").check_readable(reads(tmp_path))
    assert caught.value.code == "DELTA_TABLE_MISSING"
    (tmp_path / "plain" / "_delta_log").mkdir()
    delta("plain").check_readable(reads(tmp_path))


def test_a_closed_port_is_found_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(SocketUnreachable) as caught:
        socket("127.0.0.1", 1).check_readable(reads(tmp_path))
    assert caught.value.code == "SOCKET_UNREACHABLE"
    assert "127.0.0.1:1" in str(caught.value)
    assert caught.value.next_command == "nc -lk 1"


def test_an_unreachable_broker_is_named_with_the_origin_of_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["headwater.connectors.kafka.clients"], "_CHECK_S", 1.0)
    request = ReadRequest("signals", None, NOWHERE, tmp_path)
    with pytest.raises(BrokerUnreachable) as caught:
        kafka("signals").check_readable(request)
    assert caught.value.code == "BROKER_UNREACHABLE"
    assert "127.0.0.1:1" in str(caught.value)
    assert "headwater.toml" in str(caught.value)
    assert caught.value.next_command == "headwater services up kafka"


def test_a_connection_without_an_address_is_an_error(tmp_path: Path) -> None:
    request = ReadRequest("signals", None, Connection("kafka", {}, "headwater.toml"), tmp_path)
    with pytest.raises(ConnectionMissing, match="bootstrap_servers"):
        kafka("signals").check_readable(request)


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda: rate(0), "rows_per_second=0"),
        (lambda: rate(rows_per_batch=5, rows=-1), "rows=-1"),
        (lambda: socket("h", 70_000), "port=70000"),
        (lambda: kafka("a", pattern="b.*"), "exclude each other"),
        (lambda: kafka("a", partitions=0), "partitions=0"),
        (lambda: kafka("a", "b", starting={0: 1}), "of which topic"),
        (lambda: foreach_batch("print"), "cannot be called"),  # type: ignore[arg-type]
        (lambda: foreach(1), "process"),
        (lambda: connectors.custom("weather"), "data source class"),  # type: ignore[arg-type]
    ],
)
def test_arguments_that_make_no_connector_are_refused(make: object, fact: str) -> None:
    with pytest.raises(InvalidConnector, match=fact) as caught:
        make()  # type: ignore[operator]
    assert caught.value.code == "INVALID_CONNECTOR"


def test_kafka_offsets_become_the_options_of_their_side() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert kafka("a").starting == {"startingOffsets": "earliest"}
    assert kafka("a").ending == {}
    assert kafka("a", starting=moment).starting["startingTimestamp"] == "1767225600000"
    assert kafka("a", ending=moment).ending == {"endingTimestamp": "1767225600000"}
    by_partition = kafka("a", starting={0: 5, 1: "earliest"}).starting["startingOffsets"]
    assert jsonlib.loads(by_partition) == {"a": {"0": 5, "1": -2}}
    with pytest.raises(UnknownChoice, match="did you mean 'latest'"):
        kafka("a", starting="lastest")


def test_kafka_fields_are_the_names_of_a_record() -> None:
    assert kafka("a", fields=True).fields[0] == "key"
    assert kafka("a", fields=("offset",)).fields == ("offset",)
    with pytest.raises(UnknownChoice, match="did you mean 'offset'"):
        kafka("a", fields=("offsets",))


def test_what_cannot_be_read_says_why_and_what_instead(tmp_path: Path) -> None:
    nothing: object = None
    for connector, way in ((socket("h", 1), "batch"), (rate(), "batch"), (postgres("t"), "stream")):
        with pytest.raises(NotReadable) as caught:
            getattr(connector, f"read_{way}")(nothing, reads(tmp_path))
        assert caught.value.remedy
        assert caught.value.found
    with pytest.raises(NotReadable, match="memory"):
        memory().read_batch(nothing, reads(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(NotWritable):
        socket("h", 1).write_stream(nothing, writes(tmp_path))  # type: ignore[arg-type]


def test_two_writers_of_one_place_are_seen_by_their_place(tmp_path: Path) -> None:
    assert csv("out").place(tmp_path, "") == csv("./out").place(tmp_path, "")
    assert csv("s3a://b/out").place(tmp_path, "") == "s3a://b/out"
    assert kafka("a").place(tmp_path, "one") != kafka("a").place(tmp_path, "two")
    assert delta().place(tmp_path, "") is None
    assert console().place(tmp_path, "") is None
