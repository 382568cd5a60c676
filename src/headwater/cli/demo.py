"""Run the main job for a while: a simulated fleet writes to a local Kafka broker; a pipeline keeps
every record once, aggregates, and finds anomalies by a baseline that it learns anew as it
runs. The end proves the counts and judges the findings by the truth about the faults."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headwater.cli.app import Application
    from headwater.cli.drive import Driver
    from headwater.demo.proof import Proof
    from headwater.demo.simulator import Fleet
    from headwater.events import Report
    from headwater.runtime.running import RunningPipeline
    from headwater.settings import Connection

SUMMARY = "run the main job for a while, prove its counts and judge its findings"

APP = "headwater.demo.app"
_HOME = ".headwater"
_STORAGE = f"{_HOME}/demo"
_TRUTH = f"{_HOME}/demo-truth.jsonl"
_DRAIN_S = 300.0
_STOP_S = 120
"""Five queries end at once, and the proof wants each of them whole."""
_PARTITIONS = 2


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="for_s",
        type=options.seconds,
        default=100.0,
        metavar="100s",
        help="how long the fleet writes (default: %(default)g s)",
    )
    parser.add_argument(
        "--rate",
        type=options.count,
        default=1000,
        metavar="N",
        help="records a second (default: 1000)",
    )
    parser.add_argument(
        "--devices", type=options.count, default=100, metavar="N", help="default: 100"
    )
    parser.add_argument("--keep", action="store_true", help="leave the Kafka broker running")


def run(args: argparse.Namespace) -> int:
    from headwater.cli.broker import demo_broker
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import refuse_second_run
    from headwater.events import step

    report = step_printer()
    _require_own_folder()
    refuse_second_run(_application(bootstrap_servers=""))
    with demo_broker(Path(_HOME), keeps=args.keep, report=report) as address:
        application = _application(bootstrap_servers=address)
        with step("Emptying the demo's topics and tables", report):
            _start_from_nothing(application.settings.connection("kafka"))
        code = _run(application, args, report)
    if args.keep:
        _tell_how_to_look(address)
    return code


def _require_own_folder() -> None:
    """A pipeline of the user's own with the demo's name keeps its data where the demo clears up."""
    from headwater.errors import DemoFolderTaken

    if any((Path(_STORAGE) / name).exists() for name in ("tables", "checkpoints")):
        raise DemoFolderTaken(_STORAGE)


def _application(*, bootstrap_servers: str) -> Application:
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
        connections={"kafka": {"bootstrap_servers": bootstrap_servers}},
    )
    demo.use_settings(settings)
    return Application(APP, demo, settings)


def _start_from_nothing(connection: Connection) -> None:
    """An empty topic and an empty storage, so that the counts of this run are exact."""
    from headwater.cli.broker import replace_topic
    from headwater.demo.app import ANOMALIES, TOPIC

    shutil.rmtree(_STORAGE, ignore_errors=True)
    Path(_TRUTH).unlink(missing_ok=True)
    for topic in (TOPIC, ANOMALIES):
        replace_topic(connection, topic, partitions=_PARTITIONS)


def _run(application: Application, args: argparse.Namespace, report: Report) -> int:
    from headwater.cli.drive import Driver
    from headwater.cli.run import first_rows, tell_plan, tell_where
    from headwater.cli.sessions import session_for
    from headwater.cli.signals import StopSignals
    from headwater.cli.summary import tell_end
    from headwater.cli.views import view_for
    from headwater.demo.app import TOPIC
    from headwater.demo.simulator import Fleet
    from headwater.events import step

    tell_where(application, "as a stream")
    with (
        StopSignals() as signals,
        session_for(application, report=report, is_verbose=args.verbose),
    ):
        signals.take()
        with step("Planning", report):
            plan = application.pipeline.plan(report=report)
        tell_plan(plan)
        fleet = Fleet(
            application.settings.connection("kafka").require("bootstrap_servers"),
            TOPIC,
            rate=args.rate,
            devices=args.devices,
            for_s=args.for_s,
            truth=Path(_TRUTH),
        )
        with step("The fleet writes its last two days", report):
            fleet.write_history()
        view = view_for(f"demo  {args.rate:,} records/s from {args.devices:,} devices")
        driver = Driver(view, signals, first_rows=lambda table: first_rows(application, table))
        started = application.pipeline.start(plan=plan, report=driver.report, app=APP)
        was_forced, ends = _drive(started, driver, fleet, application)
        code = tell_end(started, driver, was_forced=was_forced)
    with step("Reading the topic and the table for the proof", report):
        proof = _proof(application, fleet, ends)
    proved = _tell_proof(fleet, proof)
    _judge(application)
    return proved or code


def _drive(
    started: RunningPipeline, driver: Driver, fleet: Fleet, application: Application
) -> tuple[bool, dict[int, int]]:
    """Lets the fleet write, then the pipeline read what is left; also after Ctrl-C."""
    from headwater.connectors.kafka import end_offsets
    from headwater.demo.app import TOPIC

    driver.view.start()
    try:
        fleet.start()
        driver.drive(started, is_over=lambda: fleet.has_ended)
        fleet.stop()
        ends = end_offsets(application.settings.connection("kafka"), TOPIC)
        driver.view.say(f"The fleet wrote {fleet.sent:,} records; reading to the end of the topic.")
        driver.wait(started, lambda: has_drained(started, TOPIC, ends), timeout_s=_DRAIN_S)
        return driver.stop(started, deadline_s=application.settings.stop_deadline_s), ends
    finally:
        driver.view.close()


def has_drained(started: RunningPipeline, topic: str, ends: dict[int, int]) -> bool:
    """Whether every running query has committed the topic up to its end offsets."""
    return all(
        _reached(query.progress, topic, ends)
        for query in started.queries.values()
        if query.is_active
    )


def _reached(progress: dict[str, object] | None, topic: str, ends: dict[int, int]) -> bool:
    sources = (progress or {}).get("sources")
    if not isinstance(sources, list) or not sources:
        return not any(ends.values())
    reached = (sources[0].get("endOffset") or {}).get(topic, {})
    return all(int(reached.get(str(partition), 0)) >= end for partition, end in ends.items())


def _proof(application: Application, fleet: Fleet, ends: dict[int, int]) -> Proof | None:
    from headwater.demo.app import TOPIC
    from headwater.demo.proof import prove
    from headwater.runtime.storage import Storage

    if fleet.failure is not None:
        return None
    storage = Storage(application.settings.storage_root, application.pipeline.name)
    return prove(
        fleet.bootstrap_servers,
        TOPIC,
        ends,
        raw=storage.table("raw"),
        rejected=storage.table("records__rejected"),
    )


def _tell_proof(fleet: Fleet, proof: Proof | None) -> ExitCode:
    if proof is None:
        print(f"The fleet failed: {fleet.failure}")
        return ExitCode.FAILED
    print("\n".join(proof.lines()), flush=True)
    return ExitCode.OK if proof.holds else ExitCode.FAILED


def _judge(application: Application) -> None:
    """What was found, held against the truth, from the first retraining on."""
    from headwater.demo.app import ANOMALIES, demo
    from headwater.demo.findings import collected
    from headwater.demo.judging import judged, read_truth
    from headwater.demo.simulator import SETTLES_S
    from headwater.runtime.models import ModelStore
    from headwater.runtime.storage import Storage

    storage = Storage(application.settings.storage_root, application.pipeline.name)
    published = [
        version
        for version in ModelStore(storage, demo.definitions().models["baseline"]).versions()
        if version.is_published
    ]
    for version in published:
        number, at = version.version, version.trained_at
        print(f"baseline: version {number} of {at}, {version.rows} devices")
    if len(published) < 2:
        print("findings are judged from the first retraining on; there was none yet")
        return
    servers = application.settings.connection("kafka").require("bootstrap_servers")
    found = collected(servers, ANOMALIES, storage, first_version=published[1].version)
    faults = read_truth(Path(_TRUTH))
    judgement = judged(
        faults,
        found.findings,
        since_s=published[1].published_s,
        until_s=found.newest_s - SETTLES_S,
    )
    print(f"findings since version {published[1].version}, by the truth in {_TRUTH}:")
    print("\n".join([*judgement.lines(), *found.lines()]), flush=True)


def _tell_how_to_look(address: str) -> None:
    print(f"The Kafka broker still runs on {address}. next:")
    print(f"  headwater show device_minutes --app {APP} --storage {_STORAGE}")
    print("  headwater services down kafka")
