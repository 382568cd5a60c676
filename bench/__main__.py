"""`python -m bench NAME`: one comparison; `--last`: what is stored; `--list`: the names."""

from __future__ import annotations

import argparse
import importlib
import sys

from bench.figures import store, stored

NAMES = (
    "start",
    "overhead",
    "yahoo",
    "yahoo_latency",
    "harness",
    "verify",
    "late",
    "panes",
    "panes_flat",
    "databases",
    "kafka",
    "recovery",
    "crashes",
    "checkpointing",
    "flat",
    "dstream",
    "dstream_flat",
    "console",
    "console_cost",
    "demo",
    "doctor",
    "tests",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="headwater bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=NAMES)
    parser.add_argument("--pairs", type=int, default=7, help="interleaved pairs (default 7)")
    parser.add_argument("--last", action="store_true", help="print what is stored")
    parser.add_argument("--list", action="store_true", help="print the names")
    arguments = parser.parse_args()
    if arguments.last:
        for content, figures in stored():
            print(f"{content['name']}, {content['at']}, {content['machine']}")
            for item in figures:
                print("  " + item.line())
        return 0
    if arguments.list or arguments.name is None:
        print("\n".join(NAMES))
        return 0
    module = importlib.import_module(f"bench.{arguments.name}")
    figures, details = module.measure(pairs=arguments.pairs)
    for item in figures:
        print(item.line())
    store(arguments.name, figures, details)
    return 0 if all(item.is_reached for item in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
