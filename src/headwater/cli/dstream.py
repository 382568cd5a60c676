"""DStream programs: what a program uses and what of it runs on Headwater unchanged. Or run one, so
that `headwater status` and `headwater stop` find it."""

from __future__ import annotations

import argparse
import runpy
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.exit_codes import ExitCode
from headwater.cli.signals import StopSignals, end_at_once

if TYPE_CHECKING:
    from headwater.dstream import StreamingContext
    from headwater.settings import Settings

SUMMARY = "check a DStream program, or run one that is found by status and stop"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("check", "run"))
    parser.add_argument(
        "--supervise", action="store_true", help="with run: start it again when its process dies"
    )
    parser.add_argument("program", metavar="PROGRAM", type=Path, help="the program's file")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="with run: the program's own"
    )


def run(args: argparse.Namespace) -> int:
    from headwater.errors import OptionsConflict

    if args.action == "run":
        return _run(args)
    if args.supervise:
        raise OptionsConflict("--supervise", "with check", "headwater dstream run --supervise")
    return _check(args.program)


def _check(program: Path) -> int:
    from headwater.dstream.checking import Verdict, check

    checked = check(_source(program))
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


def _source(program: Path) -> str:
    """The text of a program that can be compiled."""
    from headwater.errors import ProgramUnreadable

    try:
        text = program.read_text(encoding="utf-8")
        compile(text, str(program), "exec")
    except (OSError, SyntaxError, UnicodeDecodeError) as problem:
        raise ProgramUnreadable(str(program), str(problem)) from problem
    return text


def _run(args: argparse.Namespace) -> int:
    from headwater.cli.app import project_folder
    from headwater.settings import load

    _source(args.program)
    settings = load(project_folder(Path.cwd()))
    if args.supervise:
        from headwater.cli.supervise import Guard

        arguments = ["dstream", "run", str(args.program), *args.arguments]
        return Guard(arguments, budget=settings.restarts).run()
    return _Runner(args.program, args.arguments, settings).run()


class _Runner:
    """A program in this process, until it ends or somebody asks it to."""

    def __init__(self, program: Path, arguments: list[str], settings: Settings) -> None:
        self._program = program
        self._arguments = arguments
        self._settings = settings
        self._signals = StopSignals()
        self._drains = False
        self._was_forced = False

    def run(self) -> int:
        from headwater.cli.supervise import heed_supervisor
        from headwater.dstream.presence import Announced, announce
        from headwater.errors import HeadwaterError

        heed_supervisor()
        name, program = self._program.stem, str(self._program)
        announce(Announced(name, program, self._settings, self._stop, self._take_signals))
        threading.Thread(target=self._await_request, name="dstream stop", daemon=True).start()
        sys.argv = [str(self._program), *self._arguments]
        sys.path.insert(0, str(self._program.resolve().parent))
        with self._signals:
            try:
                runpy.run_path(str(self._program), run_name="__main__")
            except HeadwaterError:
                raise
            except Exception:
                # The program's own error: its author needs the line, as Python would show it.
                traceback.print_exc()
                return ExitCode.FAILED
        if not self._signals.requested.is_set():
            return ExitCode.OK
        print(f"next: headwater dstream run {self._program}", flush=True)
        return ExitCode.FORCED if self._was_forced else ExitCode.OK

    def _stop(self, drains: bool) -> None:
        self._drains = drains
        self._signals.requested.set()

    def _take_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._signals.take()

    def _await_request(self) -> None:
        from headwater.dstream import StreamingContext

        self._signals.requested.wait()
        context = StreamingContext.getActive()
        if context is None:
            end_at_once(ExitCode.INTERRUPTED, "Ended before the first batch")
        until = "takes what has come until now" if self._drains else "runs"
        print(f"Stopping after the batch that {until} ...", flush=True)
        ending = threading.Thread(target=self._finish, args=(context,), daemon=True)
        ending.start()
        ending.join(self._settings.stop_deadline_s)
        if ending.is_alive():
            self._was_forced = True
            context.stop(stopSparkContext=False, stopGraceFully=False)

    def _finish(self, context: StreamingContext) -> None:
        if self._drains:
            context.stop(stopSparkContext=False, stopGraceFully=True)
        else:
            context.stopAfterBatch()
