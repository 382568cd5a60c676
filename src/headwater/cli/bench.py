"""Run one comparison of bench/ and store its figures; without a name, list the comparisons.
In a checkout of the repository only."""

from __future__ import annotations

import argparse
import subprocess
import sys

SUMMARY = "measure one comparison of bench/ (in the repository only)"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arguments", nargs="*", metavar="NAME", help="handed on to bench/")


def run(args: argparse.Namespace) -> int:
    from headwater.cli.repository import repository
    from headwater.errors import NotInRepository

    root = repository()
    if root is None:
        raise NotInRepository("bench")
    return subprocess.run([sys.executable, "-m", "bench", *args.arguments], cwd=root).returncode
