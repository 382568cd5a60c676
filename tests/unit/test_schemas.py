"""One spelling per schema, from text and from Spark's own types, without a JVM."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from headwater.errors import InvalidSchema, Location
from headwater.schemas import Column, columns, normal_schema, schema_text

NORMAL = {
    "a INT,b  String not null": "a int, b string NOT NULL",
    "a: int": "a int",
    "struct<a:int,b:string not null>": "a int, b string NOT NULL",
    "a integer comment 'x'": "a int",
    "a long, b short, c byte, d real": "a bigint, b smallint, c tinyint, d float",
    "a dec, b numeric(5), c decimal(5 , 2)": "a decimal(10,0), b decimal(5,0), c decimal(5,2)",
    "a character(3), b varchar(4)": "a char(3), b varchar(4)",
    "a timestamp_ltz, b TIMESTAMP_NTZ": "a timestamp, b timestamp_ntz",
    "a interval day TO second, b interval": "a interval day to second, b interval",
    "a string collate UTF8_LCASE": "a string collate UTF8_LCASE",
    "a time, b time(3), c variant": "a time(6), b time(3), c variant",
    "a map<string, array<struct<x: int not null, `y z` double>>>": (
        "a map<string,array<struct<x:int NOT NULL,`y z`:double>>>"
    ),
    "`a b` int, `c``d` int, `e` int, 1a int": "`a b` int, `c``d` int, e int, `1a` int",
    "from string, date date, not int": "from string, date date, not int",
    "a struct<>": "a struct<>",
}


@pytest.mark.parametrize("text", NORMAL)
def test_a_schema_has_one_normal_form(text: str) -> None:
    normal = normal_schema(text)
    assert normal == NORMAL[text]
    assert normal_schema(normal) == normal


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no columns"),
        ("a", "column 'a' has no type"),
        ("a strng", "unknown type 'strng'; did you mean string?"),
        ("a int,", "where a column's name was expected"),
        ("a int b int", "'b' follows where a comma was expected"),
        ("a int, A string", "column 'A' stands twice"),
        ("a int not", "NOT stands without NULL"),
        ("a varchar", "varchar needs its size"),
        ("a decimal(x)", "not a number in parentheses"),
        ("a array", "such as array<string>"),
        ("a map<string>", "map needs two types"),
        ("a array<int", "where '>' was expected"),
        ("a interval day to night", "is not an interval"),
        ("a int comment b", "is not a string"),
        ("é int", "must stand in backticks"),
        ("`a int", "a quoted name is never closed"),
    ],
)
def test_a_wrong_schema_says_why(text: str, reason: str) -> None:
    where = Location("app.py", 3)
    with pytest.raises(InvalidSchema) as caught:
        normal_schema(text, name="signals", where=where)
    assert reason in caught.value.what
    assert (caught.value.where, caught.value.found) == (where, text)


def test_columns_are_values() -> None:
    found = columns("at timestamp, n long NOT NULL")
    assert found == (Column("at", "timestamp"), Column("n", "bigint", is_nullable=False))


def test_spark_types_and_text_give_the_same_schema() -> None:
    nested = StructType([StructField("x y", LongType(), nullable=False)])
    struct = StructType(
        [
            StructField("a", IntegerType(), nullable=False),
            StructField("b", ArrayType(nested)),
            StructField("c", MapType(StringType(), DecimalType(5, 2))),
        ]
    )
    text = "a int not null, b array<struct<`x y`: long not null>>, c map<string, decimal(5,2)>"
    assert schema_text(struct) == schema_text(text)


def test_no_schema_stays_none_and_a_wrong_kind_is_refused() -> None:
    assert schema_text(None) is None
    with pytest.raises(InvalidSchema, match="neither text nor a StructType"):
        schema_text(["a int"])  # type: ignore[arg-type]
