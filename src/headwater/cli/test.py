"""Run tests. In a project: pytest on its tests/. In a checkout of Headwater: ruff, mypy, then the
tiers unit, spark and e2e (or those named), and one summary.

Everything after the tiers is handed on to pytest: headwater test unit -k parsing -x
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.cli.exit_codes import ExitCode

SUMMARY = "run the tests of a project, or of Headwater itself"

_AT_ONCE = {"unit": "auto", "spark": "2", "e2e": "3"}
"""Processes per tier. In the later two each has a Spark session and servers of its own."""
TIERS = tuple(_AT_ONCE)
_BY_FILE = ["--dist", "loadfile", "--no-loadscope-reorder"]
"""In the order of the tiers' own conftest.py: what takes longest comes first."""
_AGAIN = [
    "--reruns=2",
    "--only-rerun=Timed out while waiting for the Python worker to connect back",
]
"""Spark gives a new Python process 10 s, which cannot be set; nothing else is run again."""
_NO_TESTS_COLLECTED = 5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "arguments", nargs="*", metavar="TIER|ARGUMENT", help="unit, spark, e2e; then pytest's own"
    )


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import project_folder
    from headwater.cli.repository import is_checkout, repository
    from headwater.errors import NoTests
    from headwater.settings import FILE

    folder = project_folder(Path.cwd())
    is_project = (folder / FILE).exists() or (folder / "tests").is_dir()
    if is_project and not is_checkout(folder):
        return _project(folder, args.arguments)
    root = repository()
    if root is None:
        raise NoTests(str(folder))
    tiers = [word for word in args.arguments if word in TIERS]
    passed_on = [word for word in args.arguments if word not in TIERS]
    return _repository(root, tiers, passed_on)


def _project(folder: Path, arguments: Sequence[str]) -> int:
    if not (folder / "tests").is_dir():
        from headwater.errors import NoTests

        raise NoTests(str(folder))
    return _pytest(folder, ["tests", *arguments])


def _pytest(folder: Path, arguments: Sequence[str]) -> int:
    """pytest with the environment that a run gives Spark: its Java and this Python."""
    import importlib.util

    from headwater.errors import PytestMissing
    from headwater.local.java import find_java

    if importlib.util.find_spec("pytest") is None:
        raise PytestMissing()

    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=folder, env=environment).returncode


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    code: int
    seconds: float

    def line(self) -> str:
        result = "passed" if self.code == 0 else f"failed ({self.code})"
        return f"  {self.name:<14} {result:<12} {self.seconds:6.1f} s"


def _repository(root: Path, tiers: Sequence[str], passed_on: Sequence[str]) -> int:
    outcomes = []
    if not tiers and not passed_on:
        outcomes += [_timed(name, command, root) for name, command in _CHECKS.items()]
    for tier in tiers or TIERS:
        if (root / "tests" / tier).is_dir():
            outcomes.append(_tier(root, tier, passed_on))
    print("\nsummary")
    for outcome in outcomes:
        print(outcome.line())
    total = sum(outcome.seconds for outcome in outcomes)
    failed = [outcome for outcome in outcomes if outcome.code]
    print(f"  {'all':<14} {'failed' if failed else 'passed':<12} {total:6.1f} s", flush=True)
    return failed[0].code if failed else ExitCode.OK


_CHECKS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
}


def _timed(name: str, command: Sequence[str], root: Path) -> Outcome:
    print(f"{name} ...", flush=True)
    began = time.monotonic()
    tool = [sys.executable, "-m", *command]
    return Outcome(name, subprocess.run(tool, cwd=root).returncode, time.monotonic() - began)


def _tier(root: Path, tier: str, passed_on: Sequence[str]) -> Outcome:
    print(f"tests/{tier} ...", flush=True)
    began = time.monotonic()
    beside = [] if passed_on else ["-n", _AT_ONCE[tier], *_BY_FILE]
    again = [] if tier == "unit" else _AGAIN
    code = _pytest(root, [f"tests/{tier}", *beside, *again, *passed_on])
    # With a selection such as -k, a tier may hold no matching test.
    is_empty = code == _NO_TESTS_COLLECTED and bool(passed_on)
    return Outcome(f"tests/{tier}", 0 if is_empty else code, time.monotonic() - began)
