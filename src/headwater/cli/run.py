"""Run a pipeline: as a stream until it is stopped, or once, or as a batch."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headwater.cli.app import Application
    from headwater.cli.drive import Driver
    from headwater.definitions import Trigger
    from headwater.observe.rows import Rows
    from headwater.planning import Plan
    from headwater.runtime.running import RunningPipeline

SUMMARY = "run a pipeline as a stream, once, or as a batch"

_FIRST_ROWS = 5


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_app(parser)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--once", action="store_true", help="everything new in one batch, then end")
    ways.add_argument(
        "--available-now", action="store_true", help="everything new in several batches, then end"
    )
    ways.add_argument(
        "--batch", action="store_true", help="compute every table anew and replace its content"
    )
    parser.add_argument(
        "--replace", action="store_true", help="with --batch: also where a stream wrote the table"
    )
    parser.add_argument(
        "--for", dest="for_s", type=options.seconds, metavar="60s", help="stop after this time"
    )
    parser.add_argument(
        "--fresh",
        nargs="?",
        const="",
        metavar="TABLE",
        help="move the checkpoint and rows of TABLE (default: of every table) aside first",
    )
    parser.add_argument("--tables", type=options.names, metavar="A,B", help="only these tables")
    parser.add_argument(
        "--deadline",
        type=options.whole_seconds,
        metavar="30s",
        help="how long a stop waits for running batches (setting stop_deadline_s)",
    )
    parser.add_argument(
        "--drain", action="store_true", help="a stop processes what is there before it ends"
    )
    parser.add_argument(
        "--standby",
        action="store_true",
        help="wait while another driver runs this pipeline, and take over when it has ended",
    )
    parser.add_argument(
        "--supervise", action="store_true", help="start the driver again when its process dies"
    )
    parser.add_argument(
        "--metrics",
        type=options.port,
        metavar="PORT",
        help="serve /metrics for Prometheus on 127.0.0.1 (0: a free port)",
    )
    parser.add_argument(
        "--console",
        nargs="?",
        const=0,
        type=options.port,
        metavar="PORT",
        help="serve the web console beside the pipeline (default: a free port)",
    )
    parser.add_argument(
        "--connect",
        nargs="?",
        const=0,
        type=options.port,
        metavar="PORT",
        help="let Spark Connect clients of this machine attach (default: a free port)",
    )
    parser.add_argument(
        "--json", action="store_true", help="every event as a line of JSON; the rest on stderr"
    )
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import refuse_second_run

    _check(args)
    application = load_app(args.app, flags=options.flags(args), report=step_printer())
    if args.supervise:
        return _supervised(application, args)
    if not args.standby:
        refuse_second_run(application)
    return _batch(application, args) if args.batch else _stream(application, args)


def _check(args: argparse.Namespace) -> None:
    from headwater.errors import OptionsConflict

    if args.replace and not args.batch:
        raise OptionsConflict("--replace", "without --batch", "headwater run --batch --replace")
    if args.batch and args.fresh is not None:
        raise OptionsConflict("--fresh", "together with --batch", "headwater run --batch --replace")
    if args.standby and (args.batch or args.fresh is not None):
        other = "--batch" if args.batch else "--fresh"
        raise OptionsConflict("--standby", f"together with {other}", "headwater run --standby")
    if args.supervise and args.fresh is not None:
        # Every restart would begin anew.
        once = "headwater run --fresh --available-now, then headwater run --supervise"
        raise OptionsConflict("--fresh", "together with --supervise", once)
    if args.batch and args.drain:
        raise OptionsConflict("--drain", "together with --batch", "headwater run --batch")
    served = {"--metrics": args.metrics, "--console": args.console, "--connect": args.connect}
    served["--json"] = args.json or None
    for option, value in served.items():
        if args.batch and value is not None:
            raise OptionsConflict(option, "together with --batch", "headwater run --batch")
    if args.batch and args.for_s is not None:
        raise OptionsConflict("--for", "together with --batch", "headwater run --batch")


def _batch(application: Application, args: argparse.Namespace) -> int:
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import session_for
    from headwater.events import step
    from headwater.observe.grid import grid
    from headwater.observe.tables import can_be_read_at_once, table_rows
    from headwater.runtime.claims import leased
    from headwater.runtime.ownership import Ownership

    report = step_printer()
    pipeline, settings = application.pipeline, application.settings
    tell_where(application, "as a batch")
    ownership = Ownership(settings.local_folder, pipeline.name)
    ownership.take()
    try:
        with session_for(application, report=report, is_verbose=args.verbose) as spark:
            with leased(spark, settings, pipeline.name), step("Replacing tables", report):
                names = pipeline.replace(
                    tables=args.tables, replaces_streams=args.replace, report=report
                )
            definitions = pipeline.definitions()
            for name in names:
                print(f"{name}: replaced")
                if can_be_read_at_once(definitions.tables[name]):
                    found = table_rows(definitions, settings, name, _FIRST_ROWS)
                    if found is not None and found.rows:
                        print(grid(found.columns, found.rows))
    finally:
        ownership.let_go()
    return ExitCode.OK


def _stream(application: Application, args: argparse.Namespace) -> int:
    from headwater.cli.drive import Driver
    from headwater.cli.fresh import start_afresh
    from headwater.cli.observers import attachable, observers
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import session_for
    from headwater.cli.signals import StopSignals
    from headwater.cli.standby import stand_by
    from headwater.cli.supervise import heed_supervisor
    from headwater.cli.views import view_for
    from headwater.events import both, step
    from headwater.observe.doctor.advising import advising

    application, endpoint = attachable(application, args.connect)
    pipeline = application.pipeline
    steps = step_printer()
    heed_supervisor()
    with (
        StopSignals() as signals,
        observers(args, application) as watching,
        session_for(application, report=steps, is_verbose=args.verbose) as spark,
    ):
        signals.take()
        if args.fresh is not None:
            for line in start_afresh(application, spark, [args.fresh] if args.fresh else []):
                print(line)
        claim = stand_by(application, spark, signals) if args.standby else None
        try:
            if signals.requested.is_set():
                return _nothing_done()
            with step("Planning", steps):
                plan = pipeline.plan(tables=args.tables, trigger=_trigger(args), report=steps)
            tell_plan(plan)
            if signals.requested.is_set():
                return _nothing_done()
            view = view_for(f"{pipeline.name}  {application.name}")
            driver = Driver(view, signals, first_rows=lambda table: first_rows(application, table))
            watching.watch(spark, plan, endpoint)
            report = both(driver.report, watching.report)
            started = pipeline.start(plan=plan, report=report, app=application.name, claim=claim)
            with advising(application.settings.local_folder, pipeline.name, started.tell):
                return conclude(started, driver, application, for_s=args.for_s, drains=args.drain)
        finally:
            if claim is not None:
                claim.let_go()


def _nothing_done() -> int:
    print("Stopped before the first batch; nothing was read or written.")
    return ExitCode.OK


def _supervised(application: Application, args: argparse.Namespace) -> int:
    from headwater.cli.supervise import Guard

    arguments = [word for word in args.command_line if word != "--supervise"]
    return Guard(arguments, budget=application.settings.restarts).run()


def conclude(
    started: RunningPipeline,
    driver: Driver,
    application: Application,
    *,
    for_s: float | None,
    drains: bool = False,
) -> int:
    """Drives a started pipeline to its end, stops it and tells how to resume."""
    from headwater.cli.drive import Ending
    from headwater.cli.summary import tell_end

    deadline_s = application.settings.stop_deadline_s
    driver.view.start()
    try:
        why = driver.drive(started, for_s=for_s)
        drains = (drains or started.drain_requested.is_set()) and why is not Ending.BY_ITSELF
        if why is not Ending.BY_ITSELF:
            what = "what is there now is processed first" if drains else "running batches end"
            driver.view.say(f"Stopping: {why.value} ({what}, within {deadline_s} s)")
        was_forced = driver.stop(started, deadline_s=deadline_s, drains=drains)
    finally:
        driver.view.close()
    code = tell_end(started, driver, was_forced=was_forced)
    again = shlex.join(["headwater", "run", application.name, *application.settings.flags])
    print(f"resume: {again}", flush=True)
    return code


def _trigger(args: argparse.Namespace) -> Trigger | None:
    from headwater.definitions import Trigger

    if args.once:
        return Trigger.once()
    return Trigger.available_now() if args.available_now else None


def first_rows(application: Application, table: str) -> Rows | None:
    from headwater.observe.tables import can_be_read_at_once, table_rows

    definitions = application.pipeline.definitions()
    if not can_be_read_at_once(definitions.tables[table]):
        return None
    return table_rows(definitions, application.settings, table, _FIRST_ROWS)


def tell_where(application: Application, how: str) -> None:
    settings = application.settings
    print(
        f"{application.pipeline.name} ({application.name}) {how} on {settings.master}, "
        f"profile {settings.profile}, storage {settings.storage_root}",
        flush=True,
    )


def tell_plan(plan: Plan) -> None:
    for spec in plan.queries:
        sink = "managed Delta table" if spec.is_managed else spec.sink.describe()
        guarantee = spec.guarantee.value.replace("_", "-")
        print(f"  {spec.name}: {spec.mode.value} into {sink}, trigger {spec.trigger}, {guarantee}")
    print(flush=True)
