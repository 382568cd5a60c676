"""Files of every format, both sides, as stream and as batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from headwater.connectors import csv, json, orc, parquet, text
from headwater.connectors.interface import REJECTED, Connector, OffsetRange
from headwater.definitions import Limit
from headwater.errors import InvalidSchema, SchemaMissing

SCHEMA = "device string NOT NULL, at timestamp, celsius double"
GOOD = '{"device":"a","at":"2026-01-01T12:00:00Z","celsius":1.5}'
BAD_JSON = {
    '{"device":"a","at":"2026-01-01T12:00:00Z","celsius":"hot"}': (
        'column celsius: found "hot", expected double'
    ),
    '{"at":"2026-01-01T12:00:00Z","celsius":1}': "column device: missing, declared NOT NULL",
    '{"device":"a","celsius":1}': "event time at: null",
    "no json": "not a JSON object",
    "[1]": "not a JSON object",
}
BAD_CSV = {
    "a,2026-01-01T12:00:00Z,hot": 'column celsius: found "hot", expected double',
    ",2026-01-01T12:00:00Z,1": "column device: missing, declared NOT NULL",
    "a,,1": "event time at: null",
    "alone": "not CSV of 3 columns",
    '"a,b",2026-01-01T12:00:00Z,1,2,3': "not CSV of 3 columns",
}


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def reasons(frame: Any) -> dict[str, str]:
    found = frame.selectExpr("reason", "cast(raw AS string) AS raw").collect()
    return {row.raw: row.reason for row in found}


def accepted(frame: Any) -> Any:
    return frame.where(f"NOT {REJECTED}").drop(REJECTED)


@pytest.mark.parametrize("sink", [csv("out"), json("out"), parquet("out"), orc("out")], ids=repr)
def test_what_a_stream_writes_a_batch_and_a_stream_read_back(desk: Any, sink: Connector) -> None:
    desk.put("in/1.json", *(f'{{"id":{i},"name":"n{i}"}}' for i in range(4)))
    request = desk.reads("id bigint, name string")
    frame = accepted(json("in").read_stream(desk.spark, request))
    desk.drain(frame, sink, desk.writes())
    expected = [(i, f"n{i}") for i in range(4)]
    back = sink.read_batch(desk.spark, request)
    assert rows(back.drop(REJECTED)) == expected
    again = sink.read_stream(desk.spark, request).drop(REJECTED)
    desk.drain(again, parquet("copy"), desk.writes("copy"))
    assert rows(parquet("copy").read_batch(desk.spark, desk.reads())) == expected


@pytest.mark.parametrize(
    ("source", "file", "good", "bad"),
    [
        (json("in"), "in/1.json", [GOOD, ""], BAD_JSON),
        (csv("in"), "in/1.csv", ["device,at,celsius", "a,2026-01-01T12:00:00Z,1.5"], BAD_CSV),
    ],
    ids=["json", "csv"],
)
def test_every_rejected_record_has_its_reason_and_its_text(
    desk: Any, source: Any, file: str, good: list[str], bad: dict[str, str]
) -> None:
    path = desk.put(file, *good, *bad)
    request = desk.reads(SCHEMA, event_time="at")
    frame = source.read_batch(desk.spark, request)
    assert [row.celsius for row in accepted(frame).collect()] == [1.5]
    assert frame.where(REJECTED).count() == len(bad)
    rejected = source.read_rejected(desk.spark, request, None)
    assert reasons(rejected) == bad
    assert {row.file for row in rejected.collect()} == {path.as_uri().replace("///", "/")}


def test_the_verdict_does_not_depend_on_the_columns_in_use(desk: Any) -> None:
    for source, file in ((json("in"), "in/1.json"), (csv("c"), "c/1.csv")):
        header = [] if source.system == "json" else ["device,at,celsius"]
        desk.put(file, *header, *(BAD_JSON if source.system == "json" else BAD_CSV))
        frame = source.read_batch(desk.spark, desk.reads(SCHEMA, event_time="at"))
        good = frame.where(f"NOT {REJECTED}")
        assert good.count() == 0
        assert good.select("device").count() == 0
        assert good.agg(F.count("celsius")).first()[0] == 0


def test_a_record_without_any_column_of_the_schema_is_rejected(desk: Any) -> None:
    desk.put("in/1.json", '{"a":1}', '{"b":2}', '{"c":3}')
    request = desk.reads("a int, b int")
    assert accepted(json("in").read_batch(desk.spark, request)).count() == 2
    rejected = json("in").read_rejected(desk.spark, request, None)
    assert reasons(rejected) == {'{"c":3}': "no value for any column of the schema"}


def test_rejected_records_of_a_batch_come_from_the_files_of_that_batch(desk: Any) -> None:
    for number, bad in enumerate(["one", "two", "three"]):
        desk.put(f"in/{number} {bad}.json", GOOD, bad)
    request = desk.reads(SCHEMA, event_time="at", max_per_batch=Limit.parse("1 file"))
    frame = accepted(json("in").read_stream(desk.spark, request))
    progress = desk.drain(frame, parquet("out"), desk.writes())
    ends = [batch.sources[0].endOffset for batch in progress]
    log = str(desk.checkpoint("result") / "sources" / "0")
    found = []
    for start, end in zip([None, *ends], ends, strict=False):
        part = OffsetRange(start, end, log, at_ms=0)
        found.append(list(reasons(json("in").read_rejected(desk.spark, request, part))))
    assert sorted(found) == [["one"], ["three"], ["two"]]
    assert len(reasons(json("in").read_rejected(desk.spark, request, None))) == 3


def test_a_limit_of_files_cuts_a_backlog_into_batches(desk: Any) -> None:
    for number in range(5):
        desk.put(f"in/{number}.txt", f"line {number}")
    request = desk.reads(max_per_batch=Limit.parse("2 files"))
    progress = desk.drain(
        text("in").read_stream(desk.spark, request), parquet("out"), desk.writes()
    )
    assert [batch.numInputRows for batch in progress] == [2, 2, 1]


def test_a_single_file_can_be_read_as_a_stream(desk: Any) -> None:
    desk.put("lines.txt", "a", "b")
    frame = text("lines.txt").read_stream(desk.spark, desk.reads("line string"))
    assert frame.columns == ["line"]
    desk.drain(frame, parquet("out"), desk.writes())
    assert rows(parquet("out").read_batch(desk.spark, desk.reads())) == [("a",), ("b",)]


def test_a_text_line_is_one_string(desk: Any) -> None:
    desk.put("lines.txt", "a")
    with pytest.raises(InvalidSchema, match="one string column"):
        text("lines.txt").read_batch(desk.spark, desk.reads("n int"))
    assert text("lines.txt").read_batch(desk.spark, desk.reads()).columns == ["value"]


def test_a_stream_of_parquet_needs_a_schema(desk: Any) -> None:
    (desk.base / "in").mkdir()
    with pytest.raises(SchemaMissing):
        parquet("in").read_stream(desk.spark, desk.reads())


def test_a_header_in_another_order_is_an_error_and_not_swapped_columns(desk: Any) -> None:
    desk.put("sites.csv", "site,device", "north,a")
    swapped = csv("sites.csv").read_batch(desk.spark, desk.reads("device string, site string"))
    with pytest.raises(Py4JJavaError, match="CSV header does not conform to the schema"):
        swapped.collect()
    inferred = csv("sites.csv").read_batch(desk.spark, desk.reads())
    assert rows(inferred) == [("north", "a")]


@pytest.mark.parametrize("sink", [csv("out"), json("out"), parquet("out")], ids=repr)
def test_a_batch_replaces_the_folder(desk: Any, sink: Connector) -> None:
    for amount in (5, 3):
        sink.write_batch(desk.spark.range(amount), desk.writes())
        request = desk.reads("id bigint")
        assert sink.read_batch(desk.spark, request).count() == amount
    assert [entry.name for entry in desk.base.iterdir() if entry.name.startswith(".out")] == []


def test_a_batch_that_fails_leaves_the_old_content(desk: Any) -> None:
    parquet("out").write_batch(desk.spark.range(5), desk.writes())
    broken = desk.spark.range(10).selectExpr("if(id = 7, raise_error('no'), id) AS id")
    with pytest.raises(PySparkException, match="no"):
        parquet("out").write_batch(broken, desk.writes())
    assert parquet("out").read_batch(desk.spark, desk.reads()).count() == 5
    assert sorted(entry.name for entry in Path(desk.base).iterdir()) == ["out"]
