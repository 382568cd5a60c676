"""Serve a web page on this machine that shows the pipelines of this project, or of several folders:
while they run and after they have ended. The address that is printed holds the token."""

from __future__ import annotations

import argparse
from pathlib import Path

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

SUMMARY = "serve a web page that shows what runs and what ran"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="FOLDER",
        help="project folders (default: the one here)",
    )
    parser.add_argument(
        "--port", type=options.port, default=0, metavar="N", help="default: one that is free"
    )
    parser.add_argument(
        "--read-only", action="store_true", help="show only: nothing can be stopped or restarted"
    )


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import project_folder
    from headwater.cli.signals import StopSignals
    from headwater.errors import FolderMissing
    from headwater.observe.console.server import Console, ConsoleSettings

    given = args.folders or [Path.cwd()]
    for folder in given:
        if not folder.is_dir():
            raise FolderMissing(str(folder))
    found = tuple(dict.fromkeys(project_folder(folder) / ".headwater" for folder in given))
    console = Console(ConsoleSettings(found, args.port, is_read_only=args.read_only))
    with StopSignals() as signals:
        console.start()
        print(f"console: {console.address}", flush=True)
        print("Ctrl-C ends it; the pipelines go on.", flush=True)
        signals.requested.wait()
    console.close()
    return ExitCode.OK
