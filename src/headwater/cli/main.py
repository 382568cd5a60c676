"""`headwater`: finds the command, runs it, and turns errors into text and an exit code."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from headwater.cli.exit_codes import ExitCode

COMMANDS = (
    "new",
    "run",
    "plan",
    "show",
    "sql",
    "console",
    "status",
    "stop",
    "restart",
    "test",
    "verify",
    "doctor",
    "late",
    "state",
    "files",
    "savepoint",
    "backfill",
    "dstream",
    "rebuild",
    "model",
    "services",
    "demo",
    "bench",
)

PASSED_ON = ("test", "bench")
"""Commands whose arguments are those of another program."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        args = _parsed(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe such as `| head` has gone: there is nobody to tell.
        sys.stderr.close()
        return ExitCode.OK
    except Exception as problem:
        return _told(problem, is_verbose=getattr(args, "verbose", False))


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = _parser(arguments)
    if arguments and arguments[0] in PASSED_ON and not {"-h", "--help"} & set(arguments[1:2]):
        args = parser.parse_args(arguments[:1])
        args.arguments = arguments[1:]
        return args
    args = parser.parse_args(arguments)
    args.command_line = arguments
    return args


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    """All commands with their summaries; options only of the one that is called, because
    importing every command would double the time of an answer."""
    from headwater import __version__

    parser = _Parser(prog="headwater", description=_ABOUT, epilog=_EXIT_CODES, formatter_class=_raw)
    parser.add_argument("--version", action="version", version=f"headwater {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    called = next((word for word in arguments if not word.startswith("-")), None)
    for name in COMMANDS if called not in COMMANDS else (called,):
        module = importlib.import_module(f"headwater.cli.{name}")
        about = module.__doc__ or ""
        command = commands.add_parser(
            name, help=module.SUMMARY, description=about, formatter_class=_raw
        )
        command.add_argument(
            "--verbose", action="store_true", help="Spark's log and the traceback of an error"
        )
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        close = _close_command(message)
        remedy = f"\n  remedy    did you mean {close!r}?" if close else ""
        next_command = "" if close else f"\n  next      {self.prog} --help"
        print(f"USAGE: {self.prog}: {message}{remedy}{next_command}", file=sys.stderr)
        raise SystemExit(ExitCode.USAGE)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            self.error(f"there is no command {value!r}")
        super()._check_value(action, value)


def _close_command(message: str) -> str | None:
    from headwater.errors import nearest

    quoted = message.split("'")
    return nearest(quoted[1], COMMANDS) if message.startswith("there is no command") else None


def _raw(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=100)


def _told(problem: Exception, *, is_verbose: bool) -> int:
    import traceback

    from headwater.errors import HeadwaterError

    if isinstance(problem, HeadwaterError):
        print(problem, file=sys.stderr)
        cause = problem.__cause__
        if is_verbose and cause is not None:
            print("".join(traceback.format_exception(cause)).rstrip(), file=sys.stderr)
        return problem.exit_code
    gone = _spark_gone(problem)
    print(gone or _unexpected(problem), file=sys.stderr)
    if is_verbose:
        print("".join(traceback.format_exception(problem)).rstrip(), file=sys.stderr)
    return ExitCode.FAILED if gone is None else ExitCode.ENVIRONMENT


def _spark_gone(problem: Exception) -> Exception | None:
    """What lost its JVM failed for that reason, whatever it says."""
    if "py4j.protocol" not in sys.modules:
        return None
    from py4j.protocol import Py4JError

    from headwater.cli.signals import jvm_exit
    from headwater.errors import SparkEnded

    is_lost = isinstance(problem, Py4JError | ConnectionError)
    code = jvm_exit() if is_lost else None
    return None if code is None else SparkEnded(code)


def _unexpected(problem: Exception) -> str:
    from pathlib import Path

    text = str(problem).split("\n\nJVM stacktrace", 1)[0].strip()
    first = "\n            ".join(text.splitlines()[:3])
    log = Path(".headwater/logs/spark.log")
    lines = [f"UNEXPECTED: {type(problem).__name__}", f"  found     {first}"]
    if log.exists():
        lines.append(f"  log       {log}")
    return "\n".join([*lines, "  next      the same command with --verbose"])


_ABOUT = "Continuous applications on Apache Spark: one definition, as batch and as stream."
_EXIT_CODES = """\
exit codes: 0 done, 1 a query failed, 2 wrong command, setting or definition, 3 machine or service
not ready, 4 stopped by force after the deadline, 130 ended at once by a second signal
"""

if __name__ == "__main__":
    sys.exit(main())
