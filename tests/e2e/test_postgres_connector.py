"""A lookup from a real PostgreSQL server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.connectors import jdbc, postgres
from headwater.connectors.interface import ReadRequest
from headwater.local import services
from headwater.settings import Connection


@pytest.fixture(scope="module")
def server() -> Iterator[Connection]:
    # Not below pytest's folder: PostgreSQL gives up root and could not pass through it.
    folder = Path(tempfile.mkdtemp(prefix="headwater-postgres-"))
    folder.chmod(0o755)
    services.up(folder, "postgres")
    yield Connection("postgres", services.connection(folder, "postgres"), "services up")
    services.down(folder, "postgres")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def sites(server: Connection) -> str:
    address = server.require("url").removeprefix("jdbc:")
    login = {"user": server.require("user"), "password": server.require("password")}
    with psycopg.connect(address, **login) as database:
        database.execute("CREATE TABLE sites (device text, site text, floor int)")
        database.execute("INSERT INTO sites VALUES ('a', 'north', 1), ('b', 'south', 2)")
    return "sites"


def test_a_table_of_a_database_is_a_lookup(
    spark: SparkSession, server: Connection, sites: str, tmp_path: Path
) -> None:
    plain = ReadRequest("sites", None, server, tmp_path)
    found = postgres(sites).read_batch(spark, plain).collect()
    assert sorted(found) == [("a", "north", 1), ("b", "south", 2)]
    typed = ReadRequest("sites", "device string, floor bigint", server, tmp_path)
    frame = postgres(sites).read_batch(spark, typed)
    assert frame.schema.simpleString() == "struct<device:string,floor:bigint>"
    query = {"query": f"SELECT device FROM {sites} WHERE floor = 2"}
    some = jdbc(sites, connection="postgres", driver="org.postgresql.Driver", options=query)
    assert some.read_batch(spark, plain).collect() == [("b",)]
