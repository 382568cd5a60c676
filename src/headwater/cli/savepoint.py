"""Keep a pipeline's position under a name, and go back to it: checkpoints at a batch boundary with
the version of each Delta table. The pipeline must be stopped meanwhile."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headwater.runtime.savepoints import Savepoints
    from headwater.runtime.specification import QuerySpec

SUMMARY = "keep the position of a stopped pipeline under a name, and go back to it"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("create", "list", "restore"))
    parser.add_argument("name", nargs="?", metavar="NAME", help="of create and restore")
    parser.add_argument("--app", metavar="APP", help="the application (default as in run)")
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import session_for
    from headwater.errors import InvalidName
    from headwater.planning import make_plan
    from headwater.runtime.claims import leased
    from headwater.runtime.ownership import Ownership
    from headwater.runtime.savepoints import Savepoints
    from headwater.runtime.storage import Storage

    if args.action != "list" and not args.name:
        raise InvalidName("savepoint", "")
    application = load_app(args.app, flags=options.flags(args), report=step_printer())
    pipeline, settings = application.pipeline, application.settings
    storage = Storage(settings.storage_root, pipeline.name)
    ownership = Ownership(settings.local_folder, pipeline.name)
    if args.action != "list":
        ownership.take()
    try:
        with session_for(application, report=step_printer(), is_verbose=args.verbose) as spark:
            plan = make_plan(pipeline.definitions(), settings, spark=spark)
            savepoints = Savepoints(spark, settings, storage, plan.graph)
            if args.action == "list":
                _act(args, savepoints, plan.queries)
            else:
                with leased(spark, settings, pipeline.name):
                    _act(args, savepoints, plan.queries)
    finally:
        if args.action != "list":
            ownership.let_go()
    return ExitCode.OK


def _act(args: argparse.Namespace, savepoints: Savepoints, specs: list[QuerySpec]) -> None:
    if args.action == "create":
        saved = savepoints.create(args.name, specs)
        for table in saved.tables:
            print(f"{table.table}: batch {table.batch}, {table.sink}")
        print(f"next: headwater savepoint restore {saved.name}")
    elif args.action == "restore":
        for line in savepoints.restore(args.name, specs):
            print(line)
        print("next: headwater run")
    else:
        for saved in savepoints.all():
            tables = ", ".join(f"{table.table} after batch {table.batch}" for table in saved.tables)
            print(f"{saved.name}  {saved.created}  {tables}")
