"""A lookup from a real PostgreSQL server."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.connectors import jdbc, postgres
from headwater.connectors.interface import ReadRequest
from headwater.settings import Connection


@pytest.fixture(scope="module")
def sites(postgres_connection: Connection) -> str:
    address = postgres_connection.require("url").removeprefix("jdbc:")
    login = {
        "user": postgres_connection.require("user"),
        "password": postgres_connection.require("password"),
    }
    with psycopg.connect(address, **login) as database:
        database.execute("CREATE TABLE sites (device text, site text, floor int)")
        database.execute("INSERT INTO sites VALUES ('a', 'north', 1), ('b', 'south', 2)")
    return "sites"


def test_a_table_of_a_database_is_a_lookup(
    spark: SparkSession, postgres_connection: Connection, sites: str, tmp_path: Path
) -> None:
    plain = ReadRequest("sites", None, postgres_connection, tmp_path)
    found = postgres(sites).read_batch(spark, plain).collect()
    assert sorted(found) == [("a", "north", 1), ("b", "south", 2)]
    typed = ReadRequest("sites", "device string, floor bigint", postgres_connection, tmp_path)
    frame = postgres(sites).read_batch(spark, typed)
    assert frame.schema.simpleString() == "struct<device:string,floor:bigint>"
    query = {"query": f"SELECT device FROM {sites} WHERE floor = 2"}
    some = jdbc(sites, connection="postgres", driver="org.postgresql.Driver", options=query)
    assert some.read_batch(spark, plain).collect() == [("b",)]
