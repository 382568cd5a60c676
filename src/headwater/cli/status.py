"""status."""

import argparse

SUMMARY = "x"


def configure(parser: argparse.ArgumentParser) -> None: ...
def run(args: argparse.Namespace) -> int:
    return 0
