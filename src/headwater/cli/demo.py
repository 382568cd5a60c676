"""Run the main job for a while: a simulated fleet writes to a local Kafka broker; a pipeline keeps
every record once, aggregates into PostgreSQL, and finds anomalies by a baseline that it learns anew
as it runs. The end proves the counts and judges the findings by the truth about the faults."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli import options

if TYPE_CHECKING:
    from headwater.cli.app import Application
    from headwater.cli.demo_verdict import Length
    from headwater.cli.drive import Driver
    from headwater.demo.simulator import Fleet
    from headwater.events import Event, Report
    from headwater.runtime.running import RunningPipeline
    from headwater.settings import Settings

SUMMARY = "run the main job for a while, prove its counts and judge its findings"

APP = "headwater.demo.app"
_HOME = ".headwater"
_STORAGE = f"{_HOME}/demo"
_TRUTH = f"{_HOME}/demo-truth.jsonl"
_DRAIN_S = 300.0
_STOP_S = 120
"""All queries end at once, and the proof wants each of them whole."""
_PARTITIONS = 2


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="for_s",
        type=options.seconds,
        metavar="120s",
        help="how long the fleet writes (default: two minutes; on a slow machine until what was"
        " found after a retraining can be judged)",
    )
    parser.add_argument(
        "--rate",
        type=options.count,
        default=1000,
        metavar="N",
        help="records a second (default: 1000)",
    )
    parser.add_argument(
        "--devices", type=options.count, default=500, metavar="N", help="default: 500"
    )
    parser.add_argument("--keep", action="store_true", help="leave the servers running")


def run(args: argparse.Namespace) -> int:
    from headwater.cli.demo_servers import demo_servers
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import refuse_second_run
    from headwater.events import step
    from headwater.local.postgres import missing_package

    report = step_printer()
    _require_own_folder()
    application = _application()
    refuse_second_run(application)
    servers = ["kafka", "postgres"] if missing_package() is None else ["kafka"]
    with demo_servers(Path(_HOME), servers, keeps=args.keep, report=report):
        with step("Emptying the demo's topics and tables", report):
            _start_from_nothing(application.settings, servers)
        code = _run(application, args, report, _tables(application, servers))
    if args.keep:
        _tell_how_to_look(servers)
    return code


def _tables(application: Application, servers: Sequence[str]) -> list[str]:
    """Those whose server is there."""
    from headwater.connectors.jdbc import Postgres

    declared = application.pipeline.definitions().tables
    if "postgres" in servers:
        return list(declared)
    left_out = [name for name, table in declared.items() if isinstance(table.into, Postgres)]
    print(f"Without PostgreSQL, so without {', '.join(left_out)}.")
    print("  with it: pip install 'headwater[postgres]'", flush=True)
    return [name for name in declared if name not in left_out]


def _require_own_folder() -> None:
    """A pipeline of the user's own with the demo's name keeps its data where the demo clears up."""
    from headwater.errors import DemoFolderTaken

    if any((Path(_STORAGE) / name).exists() for name in ("tables", "checkpoints")):
        raise DemoFolderTaken(_STORAGE)


def _application() -> Application:
    """The demo's own settings: a project's headwater.toml may name a real cluster."""
    import os

    from headwater.cli.app import Application
    from headwater.demo.app import demo
    from headwater.settings import Settings

    settings = Settings(
        folder=Path.cwd(),
        app=APP,
        storage=_STORAGE,
        master=os.environ.get("HEADWATER_MASTER", "local[*]"),
        stop_deadline_s=_STOP_S,
    )
    demo.use_settings(settings)
    return Application(APP, demo, settings)


def _start_from_nothing(settings: Settings, servers: Sequence[str]) -> None:
    """Empty topics, tables and storage, so that the counts of this run are exact."""
    from headwater.cli.demo_servers import drop_tables, replace_topic
    from headwater.demo.app import ALERTS, ANOMALIES, MINUTES, TOPIC, TRENDS

    shutil.rmtree(_STORAGE, ignore_errors=True)
    Path(_TRUTH).unlink(missing_ok=True)
    for topic in (TOPIC, ANOMALIES):
        replace_topic(settings.connection("kafka"), topic, partitions=_PARTITIONS)
    if "postgres" in servers:
        drop_tables(settings.connection("postgres"), (MINUTES, TRENDS, ALERTS))


def _run(
    application: Application, args: argparse.Namespace, report: Report, tables: list[str]
) -> int:
    from headwater.cli.demo_verdict import (
        Delays,
        Length,
        proof_of,
        tell_findings,
        tell_proof,
        without_learning,
    )
    from headwater.cli.drive import Driver
    from headwater.cli.run import first_rows, tell_plan, tell_where
    from headwater.cli.sessions import session_for
    from headwater.cli.signals import StopSignals
    from headwater.cli.summary import tell_end
    from headwater.cli.views import view_for
    from headwater.demo.app import TOPIC
    from headwater.demo.simulator import Fleet
    from headwater.events import step
    from headwater.observe.console.server import ConsoleProcess
    from headwater.observe.doctor.advising import advising

    local = application.settings.local_folder
    tell_where(application, "as a stream")
    with (
        StopSignals() as signals,
        closing(ConsoleProcess([local], port=0, is_read_only=False)) as console,
        session_for(application, report=report, is_verbose=args.verbose) as spark,
    ):
        print(f"console: {console.address}", flush=True)
        signals.take()
        with step("Planning", report):
            plan = application.pipeline.plan(tables=tables, report=report)
        tell_plan(plan)
        fleet = Fleet(
            application.settings.connection("kafka").require("bootstrap_servers"),
            TOPIC,
            rate=args.rate,
            devices=args.devices,
            truth=Path(_TRUTH),
        )
        with step("The fleet writes its last two days", report):
            fleet.write_history()
        view = view_for(f"demo  {args.rate:,} records/s from {args.devices:,} devices")
        driver = Driver(view, signals, first_rows=lambda table: first_rows(application, table))
        delays, length = Delays(), Length(args.for_s)

        def hear(event: Event) -> None:
            driver.report(event)
            delays.hear(event)
            length.hear(event)

        started = application.pipeline.start(plan=plan, report=hear, app=APP)
        with advising(local, application.pipeline.name, started.tell):
            was_forced, ends = _drive(started, driver, fleet, length, application)
        code = tell_end(started, driver, was_forced=was_forced)
        with step("Asking the first baseline what it would have found", report):
            frozen = without_learning(application, spark)
    with step("Reading the topic and the table for the proof", report):
        proof = proof_of(application, fleet, ends, tables)
    proved = tell_proof(fleet, proof)
    tell_findings(application, frozen, Path(_TRUTH), delays)
    return proved or code


def _drive(
    started: RunningPipeline,
    driver: Driver,
    fleet: Fleet,
    length: Length,
    application: Application,
) -> tuple[bool, dict[int, int]]:
    """Lets the fleet write, then the pipeline read what is left; also after Ctrl-C."""
    from headwater.connectors.kafka import end_offsets
    from headwater.demo.app import ANOMALIES, TOPIC

    driver.view.start()
    try:
        before, began = fleet.sent, time.monotonic()
        fleet.start()
        length.begin()
        driver.drive(started, is_over=lambda: fleet.has_ended or length.is_over())
        fleet.stop()
        broker, ended = application.settings.connection("kafka"), time.monotonic()
        ends = end_offsets(broker, TOPIC)
        wrote = f"The fleet wrote {fleet.sent - before:,} records in {ended - began:.1f} s"
        driver.view.say(f"{wrote}; reading to the end of the topic.")
        driver.wait(started, lambda: has_drained(started, TOPIC, ends), timeout_s=_DRAIN_S)
        found = end_offsets(broker, ANOMALIES)
        driver.wait(started, lambda: has_drained(started, ANOMALIES, found), timeout_s=_DRAIN_S)
        driver.view.say(f"Every table was at the end {time.monotonic() - ended:.1f} s later.")
        return driver.stop(started, deadline_s=application.settings.stop_deadline_s), ends
    finally:
        driver.view.close()


def has_drained(started: RunningPipeline, topic: str, ends: dict[int, int]) -> bool:
    """Whether every running query of the topic has committed it up to its end offsets."""
    return all(
        _reached(query.progress, topic, ends)
        for query in started.queries.values()
        if query.is_active
    )


def _reached(progress: dict[str, object] | None, topic: str, ends: dict[int, int]) -> bool:
    sources = (progress or {}).get("sources")
    if not isinstance(sources, list) or not sources:
        return not any(ends.values())
    offsets = sources[0].get("endOffset") or {}
    if offsets and topic not in offsets:
        return True
    reached = offsets.get(topic, {})
    return all(int(reached.get(str(partition), 0)) >= end for partition, end in ends.items())


def _tell_how_to_look(servers: Sequence[str]) -> None:
    print("The servers still run. next:")
    print(f"  headwater show stuck --app {APP} --storage {_STORAGE}")
    print(f"  headwater services down {' '.join(servers)}")
