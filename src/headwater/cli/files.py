"""List the files of a table that count, one per line, for readers other than Spark: the folder may
also hold files of attempts that a crash cut off."""

from __future__ import annotations

import argparse

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

SUMMARY = "list the files of a table that count"


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_table(parser, "a table that is written to files")
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import session_for
    from headwater.connectors.far_paths import FarPath
    from headwater.connectors.files import Files
    from headwater.connectors.interface import located
    from headwater.connectors.manifest import committed_files
    from headwater.errors import NotAFolderOfFiles, UnknownTable

    report = step_printer()
    application = load_app(args.app, flags=options.flags(args), report=report)
    tables = application.pipeline.definitions().tables
    if args.table not in tables:
        raise UnknownTable(args.table, tables)
    sink = tables[args.table].into
    if not isinstance(sink, Files):
        found = "a managed Delta table" if sink is None else sink.describe()
        raise NotAFolderOfFiles(args.table, found, where=tables[args.table].location)
    path = located(sink.path, application.settings.folder)
    if "://" in path:
        with session_for(application, report=report) as spark:
            files = [str(file) for file in committed_files(FarPath.of(spark, path))]
    else:
        files = [str(file) for file in committed_files(Path(path))]
    print("\n".join(files))
    return ExitCode.OK
