"""Advice on a pipeline from what its batches told, while it runs or afterwards: what was found,
what shows it, what would change, and the setting that changes it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headwater.observe.doctor.rules import Advice

SUMMARY = "say what slows a pipeline down, with evidence and the setting that helps"


def configure(parser: argparse.ArgumentParser) -> None:
    options.add_app(parser)
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.errors import NoHistory
    from headwater.observe.doctor.examination import examine
    from headwater.observe.doctor.rules import advice
    from headwater.runtime.history import history_folder

    application = load_app(args.app, flags=options.flags(args), report=step_printer())
    name, folder = application.pipeline.name, application.settings.local_folder
    found = examine(folder, name)
    if not any(case.batches for case in found):
        raise NoHistory(name, str(history_folder(folder, name)))
    said = advice(found)
    if args.json:
        print(json.dumps([asdict(one) for one in said], indent=2))
        return ExitCode.OK
    for case in found:
        print(f"{case.table}: {len(case.batches)} batches looked at")
    print("\n".join(line for one in said for line in ("", *lines(one))))
    if not any(not one.is_hint for one in said):
        print("Nothing to advise.")
    return ExitCode.OK


def lines(said: Advice) -> list[str]:
    kind = "hint" if said.is_hint else "advice"
    return [
        f"{said.table}: {said.finding}  ({kind}, {said.rule})",
        *(f"  evidence  {evidence}" for evidence in said.evidence),
        f"  gain      {said.gain}",
        f"  setting   {said.setting}",
    ]
