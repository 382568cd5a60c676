"""Every condition that the doctor knows, provoked for real: whether it is found in the first ten
batches of a run that goes on, and what its advice changes. The same table runs twice: ill, and with
the setting that was printed."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from bench.figures import Figure, figure
from headwater import Pipeline, Trigger
from headwater.connectors import delta, kafka, memory, queue, rate
from headwater.connectors.interface import ReadRequest
from headwater.connectors.kafka import create_topic
from headwater.local import services
from headwater.local.jars import JarSet
from headwater.observe.doctor.cases import Case, epoch_s, median
from headwater.observe.doctor.examination import examine
from headwater.observe.doctor.rules import RULES, Advice, advice
from headwater.runtime.session import CHANGELOG, open_session
from headwater.settings import Connection, Settings

_BATCHES = 10
_LONGEST_S = 120.0
_SHUFFLE = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a side runs, and what it may use."""

    spark: SparkSession
    folder: Path
    broker: Connection

    def pipeline(self, storage: str) -> Pipeline:
        connections = {"kafka": dict(self.broker.options)}
        settings = Settings(self.folder, connections=connections, storage=storage)
        return Pipeline("app", settings=settings)


@dataclass(frozen=True, slots=True)
class Condition:
    """`define` adds table `out`, ill or as it was advised; `cost` of it, less is better."""

    rule: str
    define: Callable[[Pipeline, Place, Advice | None], None]
    cost: Callable[[Case, Place], float]
    unit: str
    ill: dict[str, str] = field(default_factory=dict)
    """Spark settings of the ill side; the advised one has those that were printed."""
    beside: Callable[[Place], contextlib.AbstractContextManager[None]] | None = None
    """What goes on while the table runs."""
    afterwards: Callable[[Place, Advice], None] | None = None
    """What was advised to do once."""
    is_far: bool = False
    """Whether the checkpoint is in HDFS, where every file of Spark's log takes its time."""


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    """One pair of each condition, whatever `pairs` says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        services.up(folder, "kafka")
        services.up(folder, "hdfs")
        settings = Settings(folder)
        hdfs = services.connection(folder, "hdfs")["storage"]
        broker = Connection("kafka", services.connection(folder, "kafka"), "bench")
        spark = open_session(settings, [JarSet.KAFKA, JarSet.DELTA])
        try:
            details = [_judged(one, spark, folder / one.rule, broker, hdfs) for one in CONDITIONS]
        finally:
            spark.stop()
            services.down(folder, "kafka")
            services.down(folder, "hdfs")
    missed = [one["rule"] for one in details if not one["is_found"]]
    no_better = [one["rule"] for one in details if one["is_found"] and not _helped(one)]
    unknown = {rule.__name__ for rule in RULES} - {one["rule"] for one in details}
    figures = [
        figure("doctor, rules not provoked", [len(unknown)], 0, at_least=False),
        figure("doctor, not found in 10 batches", [len(missed)], 0, at_least=False),
        figure("doctor, advice that did not help", [len(no_better)], 0, at_least=False),
    ]
    return figures, details


def _helped(told: dict[str, Any]) -> bool:
    return bool(told["advised"] < told["ill"]) and not told["is_still_told"]


def _judged(
    one: Condition, spark: SparkSession, folder: Path, broker: Connection, storage: str
) -> dict[str, Any]:
    sick, well = Place(spark, folder / "ill", broker), Place(spark, folder / "advised", broker)
    with _settings(spark, one.ill):
        ill = _case(one, sick, None, storage=storage)
    found = next((said for said in advice([ill]) if said.rule == one.rule), None)
    told: dict[str, Any] = {
        "rule": one.rule,
        "is_found": found is not None,
        "ill": one.cost(ill, sick),
        "unit": one.unit,
    }
    if found is not None:
        with _settings(spark, _spark_settings(found)):
            advised = _case(one, well, found, storage=storage)
        told |= {
            "setting": found.setting.replace(str(sick.folder), "<folder>"),
            "is_still_told": any(
                said.rule == one.rule and _named(said) == _named(found)
                for said in advice([advised])
            ),
            "advised": one.cost(advised, well),
        }
    print(json.dumps(told), flush=True)
    return told


def _named(told: Advice) -> str:
    """What is to be set; another value of it is the same advice, another setting is the next."""
    return re.split(r"[=\d]", told.setting)[0]


def _case(one: Condition, place: Place, told: Advice | None, *, storage: str) -> Case:
    place.folder.mkdir(parents=True)
    beside = one.beside(place) if one.beside else contextlib.nullcontext()
    with beside:
        app = place.pipeline(f"{storage}/{_name(place)}" if one.is_far else ".headwater")
        one.define(app, place, told)
        case = _run(app, place)
    if told is not None and one.afterwards is not None:
        one.afterwards(place, told)
        [case] = examine(place.folder / ".headwater", "app")
    return case


def _run(app: Pipeline, place: Place) -> Case:
    """Ten batches, as the doctor sees them while the table runs."""
    run = app.start()
    until = time.monotonic() + _LONGEST_S
    try:
        query, seen = run["out"], -1
        while query.is_active and seen < _BATCHES - 1 and time.monotonic() < until:
            query.await_termination(timeout_s=0.2)
            [case] = examine(place.folder / ".headwater", "app")
            seen = case.batches[-1].batch if case.batches else -1
    finally:
        run.stop()
    run.raise_failure()
    return case


def _printed(told: Advice | None, name: str, ill: str) -> str:
    """The value that the advice prints for a setting; `ill` on the ill side."""
    if told is None:
        return ill
    [value] = re.findall(rf'\b{name}"?[=:] ?"([^"]+)"', told.setting)
    return str(value)


def _spark_settings(told: Advice) -> dict[str, str]:
    """What the advice prints for headwater.toml, as the session takes it."""
    found = dict(re.findall(r'"(spark\.[\w.]+)" = "(\w+)"', told.setting))
    if partitions := re.search(r"shuffle_partitions = (\d+)", told.setting):
        found[_SHUFFLE] = partitions[1]
    return found


@contextlib.contextmanager
def _settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            spark.conf.set(name, str(known))


# What a condition costs


def _batch_ms(case: Case, place: Place) -> float:
    return median(b.duration_ms for b in case.busy)


def _busy_share(case: Case, place: Place) -> float:
    return case.load


def _ms_per_row(case: Case, place: Place) -> float:
    return 1000 / median(b.processed_rows_per_s for b in case.busy)


def _behind_s(case: Case, place: Place) -> float:
    """By how much the watermark is behind the clock in the last batch."""
    last = case.busy[-1]
    return epoch_s(last.at) - epoch_s(last.watermark or last.at)


def _standing(case: Case, place: Place) -> float:
    """The share of batches after which the watermark stood where it was."""
    return 1 - (len({b.watermark for b in case.busy}) - 1) / (len(case.busy) - 1)


def _waiting(case: Case, place: Place) -> float:
    return float(case.busy[-1].kafka_lag or 0)


# Tables


def _counts(app: Pipeline, place: Place, told: Advice | None) -> None:
    app.source("ticks", rate(rows_per_batch=100))
    app.table(name="out", mode="complete", unbounded_state=True)(
        lambda ticks: ticks.groupBy((ticks.value % 10).alias("digit")).count()
    )


def _short_trigger(app: Pipeline, place: Place, told: Advice | None) -> None:
    app.source("records", kafka(_name(place)))
    app.table(name="out", trigger=_printed(told, "trigger", "20 milliseconds"))(
        lambda records: records.select("value")
    )


def _large_state(app: Pipeline, place: Place, told: Advice | None) -> None:
    """Little to do for a row, but several states to commit after every batch."""
    app.source("ticks", rate(rows_per_batch=4000))

    def out(ticks: DataFrame) -> DataFrame:
        for number in range(2):
            ticks = ticks.withColumn("id", F.col("value") + number).dropDuplicates(["id"])
        return ticks

    app.table(name="out", into=memory(), unbounded_state=True)(out)


def _many_steps(app: Pipeline, place: Place, told: Advice | None) -> None:
    """A plan of many columns for a few rows."""
    app.source("records", kafka(_name(place)), max_per_batch="100 rows")

    def out(records: DataFrame) -> DataFrame:
        known = records.select(F.length("value").alias("c0"))
        for number in range(1, 150):
            known = known.withColumn(f"c{number}", F.col(f"c{number - 1}") % (number + 7) + number)
        return known

    app.table(name="out", into=memory(), trigger=_printed(told, "trigger", "default"))(out)


def _small_batches(app: Pipeline, place: Place, told: Advice | None) -> None:
    """Into memory: exactly-once into Kafka takes longer than its log, and at-least-once, where
    asynchronous progress is the advice, has it already."""
    app.source("records", kafka(_name(place)))
    app.table(name="out", into=memory(), trigger=_printed(told, "trigger", "default"))(
        lambda records: records.select("partition").limit(1)
    )


def _two_sources(app: Pipeline, place: Place, told: Advice | None) -> None:
    create_topic(place.broker, topic := f"silent-{time.time_ns()}")
    silent = "timestamp timestamp, value long"
    app.source("silent", kafka(topic), schema=silent, event_time="timestamp", watermark="1 second")
    app.source("ticks", rate(rows_per_second=100), event_time="timestamp", watermark="1 second")
    app.table(
        name="out",
        mode="append",
        trigger="200 milliseconds",
        watermarks=_printed(told, "watermarks", "minimum"),
    )(
        lambda silent, ticks: (
            silent.unionByName(ticks).groupBy(F.window("timestamp", "1 second")).count()
        )
    )


def _one_moment(app: Pipeline, place: Place, told: Advice | None) -> None:
    """The advice is about the data, so it is the data that changes."""
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    ticks = rate(rows_per_batch=100, start=now, advance="1 second" if told else "0 seconds")
    app.source("ticks", ticks, event_time="timestamp", watermark="1 second", max_ahead="off")
    app.table(name="out", mode="append", trigger="200 milliseconds")(
        lambda ticks: ticks.groupBy(F.window("timestamp", "1 second")).count()
    )


def _long_delay(app: Pipeline, place: Place, told: Advice | None) -> None:
    delay = _printed(told, "watermark", "1 hour")
    app.source("ticks", rate(rows_per_second=5000), event_time="timestamp", watermark=delay)
    app.table(name="out", mode="append", trigger="1 second")(
        lambda ticks: ticks.groupBy(F.window("timestamp", "1 second")).count()
    )


def _short_delay(app: Pipeline, place: Place, told: Advice | None) -> None:
    """Every tenth row is half a minute behind."""
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = [
        [
            (begin + dt.timedelta(seconds=10 * batch - (30 if n % 10 == 0 else 0)), n)
            for n in range(500)
        ]
        for batch in range(10 * _BATCHES)
    ]
    app.source(
        "ticks",
        queue(rows),
        schema="timestamp timestamp, value long",
        event_time="timestamp",
        watermark=_printed(told, "watermark", "1 second"),
    )
    app.table(name="out", mode="append", trigger="1 second")(
        lambda ticks: ticks.groupBy(F.window("timestamp", "1 second")).count()
    )


def _late_share(case: Case, place: Place) -> float:
    late = sum(b.late.late for b in case.busy if b.late)
    return late / sum(b.late.rows for b in case.busy if b.late)


def _every_value(app: Pipeline, place: Place, told: Advice | None) -> None:
    """Five minutes pass from batch to batch: what is advised takes effect within ten."""
    watermark = {"event_time": "timestamp", "watermark": _printed(told, "watermark", "")}
    ticks = rate(rows_per_batch=1000, advance="5 minutes")
    app.source("ticks", ticks, **(watermark if told else {}))
    if told is None:
        app.table(name="out", mode="update", key="value", unbounded_state=True)(
            lambda ticks: ticks.groupBy("value").count()
        )
    else:
        app.table(name="out", mode="append")(
            lambda ticks: ticks.groupBy(F.window("timestamp", "5 minutes"), "value").count()
        )


def _state_rows(case: Case, place: Place) -> float:
    return float(case.busy[-1].state_rows or 0)


def _small_files(app: Pipeline, place: Place, told: Advice | None) -> None:
    """As many files in a batch as a long run has in an hour."""
    app.source("ticks", rate(rows_per_second=1000))
    trigger = _printed(told, "trigger", "200 milliseconds")
    into = delta(options={"delta.autoOptimize.autoCompact": "false"})
    app.table(name="out", into=into, trigger=trigger)(lambda ticks: ticks.repartition(150, "value"))


def _optimize(place: Place, told: Advice) -> None:
    """The statement that was printed, for the table of this side."""
    [statement] = re.findall(r"OPTIMIZE delta\.`[^`]+`", told.setting)
    place.spark.sql(statement.replace(str(place.folder.parent / "ill"), str(place.folder)))


def _files_per_1000_rows(case: Case, place: Place) -> float:
    files = case.files.count if case.files else 0
    return 1000 * files / sum(b.input_rows for b in case.batches)


@F.udf(LongType())
def _slow(number: int) -> int:
    for _ in range(5000):
        number = (number * 31 + 7) % 1_000_003
    return number


def _python(app: Pipeline, place: Place, told: Advice | None) -> None:
    """The advice names no function; this one does a part of the other's work."""
    app.source("ticks", rate(rows_per_batch=6000))
    mine = (F.col("value") * 31 + 7) % 1_000_003 if told else _slow("value")
    app.table(name="out")(lambda ticks: ticks.select(mine.alias("value")))


# Tables that read Kafka


def _topic(place: Place, records: dict[int, int]) -> str:
    """A topic with so many records in each partition."""
    topic = _name(place)
    create_topic(place.broker, topic, partitions=len(records))
    producer = Producer({"bootstrap.servers": place.broker.require("bootstrap_servers")})
    for partition, count in records.items():
        for number in range(count):
            producer.produce(topic, str(number), partition=partition)
            if number % 10_000 == 0:
                producer.flush()
    producer.flush()
    return topic


def _heavy(rows: DataFrame) -> DataFrame:
    """Work for a core, inside the JVM."""
    digest = F.col("value").cast("string")
    for _ in range(80):
        digest = F.sha2(digest, 512)
    return rows.select(digest.alias("digest"))


@contextlib.contextmanager
def _arriving(place: Place) -> Iterator[None]:
    """4,000 records a second, until the table has ended; each says when it was sent."""
    topic, is_over = _topic(place, {0: 10, 1: 10}), threading.Event()
    producer = Producer({"bootstrap.servers": place.broker.require("bootstrap_servers")})

    def send() -> None:
        while not is_over.wait(0.1):
            for _ in range(400):
                producer.produce(topic, str(time.time_ns() // 1_000_000))
            producer.flush()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _name(place: Place) -> str:
    return f"{place.folder.parent.name}-{place.folder.name}"


def _limited(app: Pipeline, place: Place, told: Advice | None) -> None:
    """The advice names no number: how much a batch can hold is not known from smaller ones."""
    limit = {} if told else {"max_per_batch": "100 rows"}
    app.source("records", kafka(_name(place)), **limit)
    app.table(name="out", trigger="500 milliseconds")(lambda records: records.select("value"))


def _one_partition(app: Pipeline, place: Place, told: Advice | None) -> None:
    topic = _topic(place, {0: 600_000})
    options = {"minPartitions": _printed(told, "minPartitions", "")} if told else {}
    app.source("records", kafka(topic, options=options), max_per_batch="30000 rows")
    app.table(name="out")(lambda records: _heavy(records))


def _one_large_partition(app: Pipeline, place: Place, told: Advice | None) -> None:
    topic = _topic(place, {0: 400_000, 1: 100, 2: 100, 3: 100})
    options = {"minPartitions": _printed(told, "minPartitions", "")} if told else {}
    app.source("records", kafka(topic, options=options), max_per_batch="20000 rows")
    app.table(name="out")(lambda records: _heavy(records))


def _kafka_to_kafka(app: Pipeline, place: Place, told: Advice | None) -> None:
    app.source("records", kafka(_name(place), starting="latest"))
    into = kafka(f"{_name(place)}-out", create=True)
    # Not the five minutes that are advised: of a batch nothing is told before its end.
    real_time = Trigger.real_time("5 seconds")
    faster = {"trigger": real_time, "mode": "update", "guarantee": "at_least_once"}
    app.table(name="out", into=into, **(faster if told else {}))(
        lambda records: records.select("value")
    )


def _on_the_way_ms(case: Case, place: Place) -> float:
    """From the moment a record was sent until the one made of it was, in the middle."""
    request = ReadRequest("out", None, place.broker, place.folder)
    records = kafka(f"{_name(place)}-out").read_batch(place.spark, request)
    sent = F.col("value").cast("string").cast("long")
    ms = F.unix_millis("timestamp") - sent
    # The first records waited while the query started.
    newest = records.select(ms.alias("ms"), sent.alias("sent")).orderBy(F.desc("sent")).limit(4000)
    [found] = newest.agg(F.median("ms")).collect()
    return float(found[0])


CONDITIONS = (
    Condition("backlog_grows", _limited, _waiting, "records waiting", beside=_arriving),
    Condition(
        "batch_longer_than_trigger", _short_trigger, _ms_per_row, "ms per row", beside=_arriving
    ),
    Condition("too_many_partitions", _counts, _batch_ms, "ms per batch", ill={_SHUFFLE: "12"}),
    Condition(
        "state_commits_dominate",
        _large_state,
        lambda case, place: median(b.state_commit_ms or 0 for b in case.busy),
        "ms of a batch",
        ill={CHANGELOG: "false"},
        is_far=True,
    ),
    Condition("planning_dominates", _many_steps, _busy_share, "of the time", beside=_arriving),
    Condition(
        "log_writes_dominate",
        _small_batches,
        _busy_share,
        "of the time",
        beside=_arriving,
        is_far=True,
    ),
    Condition("watermark_held_back", _two_sources, _standing, "of the batches"),
    Condition("watermark_stuck", _one_moment, _standing, "of the batches"),
    Condition("delay_too_long", _long_delay, _behind_s, "s behind"),
    Condition("delay_too_short", _short_delay, _late_share, "of the rows late"),
    Condition("state_grows", _every_value, _state_rows, "rows of state"),
    Condition("few_kafka_partitions", _one_partition, _ms_per_row, "ms per row"),
    Condition("skewed_partitions", _one_large_partition, _ms_per_row, "ms per row"),
    Condition(
        "many_small_files",
        _small_files,
        _files_per_1000_rows,
        "files per 1,000 rows",
        afterwards=_optimize,
    ),
    Condition("python_dominates", _python, _batch_ms, "ms per batch"),
    Condition("faster_trigger_possible", _kafka_to_kafka, _on_the_way_ms, "ms", beside=_arriving),
)
