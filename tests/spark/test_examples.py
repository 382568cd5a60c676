"""The worked examples that need neither a broker nor a socket, in one session."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.cli.app import Application
from headwater.observe.grid import grid
from headwater.testing import Harness, add, check_new, process

pytestmark = pytest.mark.usefixtures("spark")

EXAMPLES = Path(__file__).parents[2] / "examples"
COVERED_HERE = {"clickstream", "etl", "one_function", "web_log", "word_count"}
COVERED_END_TO_END = {"every_sink", "kafka", "lambda", "latency", "word_count"}
COVERED_BY_DEMO = {"iot"}
COVERED_WITH_EVENT_TIME = {"ads", "event_time", "inactive"}

Load = Callable[..., Application]


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def in_order(folder: Path) -> None:
    """Files arrive one after the other; a copy of them may have lost that."""
    for number, file in enumerate(sorted(folder.iterdir())):
        os.utime(file, (number + 1, number + 1))


def batches(text: str) -> list[str]:
    """What a console sink printed, batch by batch, without its rules."""
    return [part.strip(" -\n") for part in text.split("Batch: ")[1:]]


def test_every_example_is_covered_and_has_its_parts() -> None:
    folders = {entry.name for entry in EXAMPLES.iterdir() if (entry / "headwater.toml").exists()}
    covered = COVERED_HERE | COVERED_END_TO_END | COVERED_BY_DEMO | COVERED_WITH_EVENT_TIME
    assert folders <= covered
    assert folders >= COVERED_HERE | COVERED_END_TO_END
    for name in folders:
        assert (EXAMPLES / name / "app.py").is_file()
        assert (EXAMPLES / name / "README.md").is_file()


def test_words_are_counted_over_all_files_so_far(
    example: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    app = example("word_count")
    in_order(app.settings.folder / "books")
    app.pipeline.refresh()
    printed = batches(capsys.readouterr().out)
    readme = (EXAMPLES / "word_count/README.md").read_text()
    assert len(printed) == 2
    # The rows of a batch come from two partitions, in no particular order.
    assert all(line in readme for batch in printed for line in batch.splitlines())
    counts = dict(rows(app.pipeline.batch()["words"]))
    assert counts["the"] == 8
    assert sum(counts.values()) == 28


def test_each_mode_writes_its_own_part_of_a_batch(
    example: Load, harness: Callable[..., Harness]
) -> None:
    first = [("facebook", "clicked"), ("youtube", "clicked"), ("linkedin", "viewed")]
    second = [("facebook", "viewed"), ("linkedin", "viewed")]
    harness(example("clickstream").pipeline).run(
        add("clicks", first),
        process(),
        check_new("records", first),
        check_new("all_counts", [("viewed", 1), ("clicked", 2)]),
        check_new("changed_counts", [("viewed", 1), ("clicked", 2)]),
        add("clicks", second),
        process(),
        check_new("records", second),
        check_new("all_counts", [("viewed", 3), ("clicked", 2)]),
        check_new("changed_counts", [("viewed", 3)]),
    )


def test_what_the_modes_print_is_in_the_readme(
    example: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    example("clickstream").pipeline.refresh()
    printed = batches(capsys.readouterr().out)
    readme = (EXAMPLES / "clickstream/README.md").read_text()
    assert len(printed) == 6
    # The rows of a batch come from two partitions, in no particular order.
    assert all(line in readme for batch in printed for line in batch.splitlines())


def test_the_busiest_addresses_of_closed_windows_are_those_of_the_batch(
    example: Load, spark: SparkSession
) -> None:
    app = example("web_log")
    in_order(app.settings.folder / "logs")
    app.pipeline.refresh()
    import report

    stored = {
        name: frame.orderBy("until", "rank").collect()
        for name, frame in report.reports(spark, app.settings.folder).items()
    }
    frames = app.pipeline.batch()
    batch = {name: frames[name].orderBy("until", "rank") for name in stored}
    closed = [batch[name].where("until <= '2026-03-01 12:04:55'") for name in stored]
    assert stored["top_ips"] == closed[0].collect()
    assert stored["top_countries"] == closed[1].collect()
    assert stored["top_totals"] == batch["top_totals"].collect()
    readme = (EXAMPLES / "web_log/README.md").read_text()
    shown = {name: grid(found[0].__fields__, found) for name, found in stored.items()}
    assert shown["top_totals"] in readme
    for name in ("top_ips", "top_countries"):
        assert "\n".join(shown[name].splitlines()[:4]) in readme


def test_a_running_total_counts_every_request_once(example: Load) -> None:
    batch = example("web_log").pipeline.batch()
    lines = "".join(file.read_text() for file in (EXAMPLES / "web_log/logs").iterdir())
    for row in batch["traffic"].groupBy("ip").sum("newest").collect():
        assert row["sum(newest)"] == lines.count(f" {row['ip']} "), row["ip"]
    [rejected] = batch["requests__rejected"].collect()
    assert bytes(rejected["raw"]).decode() == "- - client closed connection"


def test_batch_and_stream_of_the_etl_write_the_same_files(
    example: Load, spark: SparkSession
) -> None:
    batch, stream = example("etl", "batch"), example("etl", "stream")
    batch.pipeline.replace()
    stream.pipeline.refresh()
    written = [spark.read.parquet(str(e.settings.folder / "strong")) for e in (batch, stream)]
    rejected = [
        spark.read.format("delta").load(f"{e.settings.storage_root}/etl/tables/devices__rejected")
        for e in (batch, stream)
    ]
    assert rows(written[0]) == rows(written[1]) == [("gate-1", 22), ("mast-1", 27), ("pump-1", 31)]
    reasons = [[row["reason"] for row in frame.collect()] for frame in rejected]
    assert reasons == [['column signal: found "weak", expected int']] * 2


def test_one_function_finds_the_same_errors_in_a_program_and_in_a_stream(
    example: Load, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    app = example("one_function")
    import errors

    found = errors.only_errors(spark.read.text(str(app.settings.folder / "logs")))
    app.pipeline.refresh()
    [printed] = batches(capsys.readouterr().out)
    expected = [row["value"] for row in found.collect()]
    assert len(expected) == 2
    assert all(line in printed for line in expected)
    program = found.orderBy("value")._jdf.showString(20, 0, False).strip()
    assert program in (EXAMPLES / "one_function/README.md").read_text()
    assert rows(app.pipeline.batch()["alarms"]) == rows(found)


def test_the_fleet_serves_its_results_from_postgres(example: Load) -> None:
    """The demo itself runs end to end; here, that the example is the demo."""
    plan = example("iot").pipeline.plan(tables=["site_trends", "alerts"])
    sinks = {query.name: query.sink.describe() for query in plan.queries}
    assert sinks == {
        "site_trends": "postgres table demo_site_trends",
        "alerts": "postgres table demo_alerts",
    }
    plan = example("iot", "again").pipeline.plan(tables=["anomalies"])
    assert set(plan.upstream) == {"raw"}
    decisions = plan.tables["anomalies"].decisions
    assert decisions is not None
    assert any("model baseline" in note for note in decisions.notes)
