"""DStream programs: what a program uses, and what of it runs on Headwater unchanged."""

from __future__ import annotations

import argparse
from pathlib import Path

from headwater.cli.exit_codes import ExitCode

SUMMARY = "check a DStream program before its import lines are changed"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("check",))
    parser.add_argument("program", metavar="PROGRAM", type=Path, help="the program's file")


def run(args: argparse.Namespace) -> int:
    from headwater.dstream.checking import Verdict, check
    from headwater.errors import ProgramUnreadable

    try:
        checked = check(args.program.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError) as problem:
        raise ProgramUnreadable(str(args.program), str(problem)) from problem
    if checked.imports:
        print("Change these imports:")
        for one in checked.imports:
            print(f"  line {one.line}: {one.old}")
            for line in one.new.splitlines():
                print(f"       -> {line}")
    for verdict in Verdict:
        found = [finding for finding in checked.findings if finding.verdict is verdict]
        if found:
            print(f"\n{verdict.value[:1].upper()}{verdict.value[1:]}:")
        for finding in found:
            note = f": {finding.note}" if finding.note else ""
            print(f"  line {finding.line}: {finding.name}{note}")
    if not checked.imports and not checked.findings:
        print("The program uses no DStreams.")
    return ExitCode.OK if checked.runs else ExitCode.FAILED
