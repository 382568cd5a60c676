"""Which queries give one row per key in a batch, and which need an order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater import Pipeline
from headwater.connectors import delta, json, kafka, memory, postgres, redis
from headwater.definitions import OutputMode
from headwater.errors import HeadwaterError, KeyNeedsOrder, KeyUnknown
from headwater.planning.keys import several_rows
from headwater.settings import Settings

Frame = Any
Query = Callable[[Frame], Frame]
PLAIN = "nothing in the query makes one row per key"


@pytest.fixture
def signals(spark: Any, tmp_path: Path) -> Frame:
    (tmp_path / "in").mkdir()
    schema = "device string, at timestamp, celsius double, tags array<string>"
    stream = spark.readStream.schema(schema).json(str(tmp_path / "in"))
    stream = stream.withWatermark("at", "10 minutes")
    stream.createOrReplaceTempView("signals")
    return stream


def by_minute(signals: Frame, *, minutes: str = "1 minute", slide: str | None = None) -> Frame:
    from pyspark.sql import functions as F

    return signals.groupBy(F.window("at", minutes, slide), "device").agg(F.avg("celsius"))


def with_lookup(frame: Frame, how: str = "inner") -> Frame:
    lookup = frame.sparkSession.createDataFrame([("a", "north")], "device string, site string")
    return frame.join(lookup, "device", how)


def in_sql(text: str) -> Query:
    return lambda signals: signals.sparkSession.sql(text)


GROUPED_IN_SQL = "SELECT device, window.start AS minute, count(*) AS n FROM signals GROUP BY "
ONE_ROW: dict[str, tuple[Query, list[str]]] = {
    "grouped by the key": (lambda s: s.groupBy("device").count(), ["device"]),
    "grouped by part of the key": (
        lambda s: s.groupBy("device").agg({"at": "max"}).withColumnRenamed("max(at)", "at"),
        ["device", "at"],
    ),
    "grouped by nothing": (lambda s: s.groupBy().count(), ["count"]),
    "a renamed group": (
        lambda s: s.groupBy(s.device.alias("d")).count().withColumnRenamed("d", "Id"),
        ["id"],
    ),
    "the start of a window": (
        lambda s: by_minute(s).selectExpr("device", "window.start AS minute"),
        ["device", "minute"],
    ),
    "the end of a window that slides": (
        lambda s: by_minute(s, slide="10 seconds").selectExpr("device", "window.end AS minute"),
        ["device", "minute"],
    ),
    "a whole window": (by_minute, ["device", "window"]),
    "a window in SQL": (
        in_sql(GROUPED_IN_SQL + "window(at, '1 minute'), device"),
        ["device", "minute"],
    ),
    "a common table expression": (
        in_sql(
            f"WITH m AS ({GROUPED_IN_SQL} window(at, '1 minute'), device) SELECT * FROM m WHERE n>1"
        ),
        ["device", "minute"],
    ),
    "a group that is computed": (
        in_sql("SELECT date_trunc('DAY', at) AS day, count(*) AS n FROM signals GROUP BY day"),
        ["day"],
    ),
    "a key computed from the groups": (
        lambda s: by_minute(s).selectExpr("concat(device, window.start) AS id"),
        ["id"],
    ),
    "without duplicates": (lambda s: s.dropDuplicates(["device"]), ["device", "at"]),
    "without duplicates in a while": (
        lambda s: s.dropDuplicatesWithinWatermark(["device"]).select("device", "at"),
        ["device"],
    ),
    "distinct": (lambda s: s.select("device").distinct(), ["device"]),
    "groups filtered and joined": (lambda s: with_lookup(s.groupBy("device").count()), ["device"]),
    "groups that a lookup allows": (
        lambda s: with_lookup(s.groupBy("device").count(), "left_semi"),
        ["device"],
    ),
    "a Python function": (
        lambda s: s.select("device").mapInPandas(lambda frames: frames, "device string"),
        ["device"],
    ),
}
SEVERAL: dict[str, tuple[Query, list[str], str]] = {
    "rows as they come": (lambda s: s, ["device"], PLAIN),
    "filtered and projected": (
        lambda s: s.where("celsius > 3").selectExpr("upper(device) AS device", "at"),
        ["device"],
        PLAIN,
    ),
    "joined with a lookup": (with_lookup, ["device"], PLAIN),
    "exploded": (
        lambda s: s.selectExpr("device", "explode(tags) AS tag"),
        ["device", "tag"],
        PLAIN,
    ),
    "two streams": (
        lambda s: s.join(s.selectExpr("device AS other"), s.device == s["device"]),
        ["device"],
        PLAIN,
    ),
    "one of two branches": (
        lambda s: s.select("device").dropDuplicates(["device"]).union(s.select("device")),
        ["device"],
        PLAIN,
    ),
    "grouped by more": (by_minute, ["device"], "grouped by more than the key: window"),
    "grouped by more in SQL": (
        in_sql(
            f"WITH m AS ({GROUPED_IN_SQL} window(at, '1 minute'), device) SELECT minute, n FROM m"
        ),
        ["minute"],
        "grouped by more than the key: device",
    ),
    "grouped by something computed": (
        in_sql("SELECT device FROM signals GROUP BY device, date_trunc('DAY', at)"),
        ["device"],
        "date_trunc",
    ),
    "without other duplicates": (
        lambda s: s.dropDuplicates(["device", "at"]),
        ["device"],
        "duplicates are dropped by more than the key: at",
    ),
    "distinct by more": (
        lambda s: s.select("device", "celsius").distinct(),
        ["device"],
        "duplicates are dropped by more than the key: celsius",
    ),
    "a common table expression": (
        in_sql("WITH hot AS (SELECT * FROM signals WHERE celsius > 30) SELECT * FROM hot"),
        ["device"],
        PLAIN,
    ),
}


@pytest.mark.parametrize("kind", ONE_ROW)
def test_one_row_per_key_is_seen_in_the_plan(kind: str, signals: Frame) -> None:
    query, key = ONE_ROW[kind]
    assert several_rows(query(signals), key) is None


@pytest.mark.parametrize("kind", SEVERAL)
def test_several_rows_of_a_key_are_seen_in_the_plan(kind: str, signals: Frame) -> None:
    query, key, reason = SEVERAL[kind]
    assert reason in (several_rows(query(signals), key) or "")


def app_in(tmp_path: Path, source: Any = None) -> Pipeline:
    app = Pipeline("app", settings=Settings(folder=tmp_path, master="local[2]"))
    source = source or memory(rows=[("a", None)])
    app.source("signals", source, schema="device string, at timestamp", event_time="at")
    return app


@pytest.mark.parametrize("into", [None, delta("out"), postgres("out"), redis("out")], ids=str)
def test_an_update_by_key_needs_an_order(into: Any, spark: Any, tmp_path: Path) -> None:
    app = app_in(tmp_path)
    app.table(name="last_seen", key="device", mode="update", into=into)(lambda signals: signals)
    with pytest.raises(KeyNeedsOrder) as refusal:
        app.plan()
    for part in ("'last_seen'", "(device)", 'order_by="at"', "ORDER BY (at)", "test_keys.py"):
        assert part in str(refusal.value)


@pytest.mark.parametrize("source", ["kafka", "files"])
def test_what_a_source_adds_hides_nothing(source: str, spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    app = app_in(tmp_path, kafka("signals") if source == "kafka" else json("in"))
    app.table(name="last_seen", key="device", mode="update")(lambda signals: signals)
    with pytest.raises(KeyNeedsOrder):
        app.plan()


def test_sql_is_refused_in_the_same_words(spark: Any, tmp_path: Path) -> None:
    text = "CREATE STREAMING TABLE last_seen MODE update KEY (device) AS SELECT * FROM signals;"
    (tmp_path / "tables.sql").write_text(text)
    app = app_in(tmp_path)
    app.sql_file(tmp_path / "tables.sql")
    with pytest.raises(KeyNeedsOrder, match=r"(?s)tables\.sql:1.*ORDER BY \(at\)"):
        app.plan()


def test_a_key_with_an_order_is_updated(spark: Any, tmp_path: Path) -> None:
    app = app_in(tmp_path)
    app.table(name="last_seen", key="device", order_by="at")(lambda signals: signals)
    plan = app.plan().tables["last_seen"]
    assert plan.query.mode is OutputMode.UPDATE
    assert "order_by (at)" in plan.decisions.mode.reason


def test_kafka_takes_every_row_of_a_key(spark: Any, tmp_path: Path) -> None:
    app = app_in(tmp_path)
    app.table(name="t", key="device", mode="update", into=kafka("out"))(lambda signals: signals)
    assert app.plan().tables["t"].query.mode is OutputMode.UPDATE


def test_an_order_by_something_else_is_refused(spark: Any, tmp_path: Path) -> None:
    app = app_in(tmp_path)
    app.table(name="t", key="device", order_by="att", mode="update")(lambda signals: signals)
    with pytest.raises(KeyUnknown, match="the order_by of table 't' names 'att'") as refusal:
        app.plan()
    assert isinstance(refusal.value, HeadwaterError)
    assert "did you mean 'at'?" in str(refusal.value)
