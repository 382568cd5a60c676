"""`verify --crash --all` and `--random`: a real driver crashes while it writes to real sinks."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.app import Application
from headwater.cli.exit_codes import ExitCode
from headwater.cli.printing import step_printer
from headwater.cli.sessions import session_for
from headwater.runtime.specification import connection_of
from headwater.verification.crash_matrix import (
    Cell,
    Kind,
    Matrix,
    Round,
    TableFacts,
    cells_of,
    covering,
    random_cells,
)
from headwater.verification.redirection import LAST_FILE, crash_name, unread
from headwater.verification.verifier import Verifier

if TYPE_CHECKING:
    from headwater.pipeline import Pipeline
    from headwater.settings import Connection

_BATCHES = 16
_PER_RANDOM_ROUND = 4
_TRIES = 4
"""So often a cell is tried that is not reached, because the batch was faster."""
_PORT = re.compile(r":(\d{2,5})(?=[/,?\s]|$)")


def run_crashes(
    args: argparse.Namespace, application: Application, files: Mapping[str, Path]
) -> int:
    """Records the input, runs the cells, prints and stores what came of them."""
    place = application.settings.local_folder / crash_name(application.pipeline.name)
    folder = place / "work"
    shutil.rmtree(place, ignore_errors=True)
    folder.mkdir(parents=True)
    facts = _prepared(args, application, files, folder)
    batches = max(len(list(source.iterdir())) for source in (folder / "input").iterdir())
    matrix = Matrix(
        lambda tag, what, tables: [
            *(sys.executable, "-m", "headwater.cli.crash_driver"),
            *(str(folder), tag, what, *tables),
        ],
        folder,
        crash_name(application.pipeline.name),
        {one.name: one.ports for one in facts},
        batches,
        args.seed,
        lambda line: print(line, flush=True),
    )
    for table, why in unread(application.pipeline).items():
        print(f"{table}: left out, {why}")
    print("without a crash ...", flush=True)
    reference = matrix.reference()
    late = {name.removesuffix("__late") for name, rows in reference.items() if rows}
    known = [
        _with_late(one, one.name in late and f"{one.name}__late" in reference) for one in facts
    ]
    is_cluster = application.settings.master.startswith("spark:")
    cells = cells_of(known, has_executors=is_cluster)
    cells = [cell for cell in cells if not args.kind or cell.kind.value in args.kind]
    if args.cover:
        cells = covering(cells, args.seed)
    rounds: list[Round] = []
    for chosen, left in _chunks(args, cells, matrix.most_per_round, rounds):
        rounds.append(matrix.round(len(rounds) + 1, chosen, left, reference))
        if not rounds[-1].is_exact:
            break
    return _concluded(args, application, [] if args.random else cells, rounds, place)


def _chunks(
    args: argparse.Namespace, cells: Sequence[Cell], size: int, rounds: Sequence[Round]
) -> Iterator[tuple[list[Cell], list[Cell]]]:
    """The cells of each round, and all that are still to be reached; with --random new ones until
    the time is over."""
    if args.random is None:
        tries: Counter[Cell] = Counter()
        # Those that a killed driver may reach by chance come last.
        ordered = sorted(cells, key=lambda cell: (cell.kind is Kind.DRIVER, cell.is_by_chance))
        while True:
            reached = {crash.cell for one in rounds for crash in one.reached}
            left = [cell for cell in ordered if cell not in reached and tries[cell] < _TRIES]
            if not left:
                return
            # A cell that was just missed waits for the others.
            chosen = sorted(left, key=tries.__getitem__)[:size]
            tries.update(chosen)
            yield chosen, left
    end = time.monotonic() + args.random
    drawn = random_cells(cells, args.seed)
    while True:
        chosen = list(dict.fromkeys(islice(drawn, min(size, _PER_RANDOM_ROUND))))
        yield chosen, chosen
        if time.monotonic() >= end:
            return


def _prepared(
    args: argparse.Namespace, application: Application, files: Mapping[str, Path], folder: Path
) -> list[TableFacts]:
    """Writes the input as files, one per batch, and what the driver has to know."""
    with session_for(application, report=step_printer(), is_verbose=args.verbose) as spark:
        verifier = Verifier(application.pipeline, spark)
        verifier.record(rows=dict(files), limit=args.rows, into=folder / "recorded")
        schemas = verifier.schemas()
        facts = _facts(application.pipeline, args.table)
    for name in schemas:
        split_for_batches(folder / "recorded" / f"{name}.parquet", folder / "input" / name)
    about = {"app": args.app, "flags": dict(options.flags(args)), "inputs": schemas}
    (folder / "crash.json").write_text(json.dumps(about))
    return facts


def _facts(pipeline: Pipeline, only: Sequence[str]) -> list[TableFacts]:
    """What is known of the tables, or of those named; raises UnknownTable."""
    plan, left_out = pipeline.plan(tables=only or None), unread(pipeline)
    found = []
    for name, table in plan.tables.items():
        if name in left_out or table.decisions is None or (only and name not in only):
            continue
        spec, facts = table.query, table.decisions.facts
        found.append(
            TableFacts(
                name,
                spec.sink.system,
                spec.mode.value,
                is_stateful=bool(facts.stateful),
                has_late=False,
                has_python=bool(facts.python),
                ports=_ports(connection_of(spec.sink, pipeline.settings)),
            )
        )
    return found


def _ports(connection: Connection | None) -> tuple[int, ...]:
    """The ports that the addresses of a connection name."""
    if connection is None:
        return ()
    addresses = (connection.options.get(name, "") for name in ("url", "bootstrap_servers"))
    return tuple(int(port) for text in addresses for port in _PORT.findall(str(text)))


def _with_late(facts: TableFacts, has_late: bool) -> TableFacts:
    from dataclasses import replace

    return replace(facts, has_late=has_late)


def split_for_batches(recorded: Path, folder: Path) -> None:
    """Files in the order of their times: Spark reads them one after the other."""
    from pyarrow import parquet

    folder.mkdir(parents=True)
    rows = parquet.read_table(recorded)
    count = max(1, min(_BATCHES, rows.num_rows))
    for number in range(count):
        start, end = (rows.num_rows * n // count for n in (number, number + 1))
        is_last = number == count - 1 and number > 0
        file = folder / (LAST_FILE if is_last else f"{number:03}.parquet")
        parquet.write_table(rows.slice(start, end - start), file)
        os.utime(file, (1_000_000 + number, 1_000_000 + number))


def _concluded(
    args: argparse.Namespace,
    application: Application,
    cells: Sequence[Cell],
    rounds: Sequence[Round],
    place: Path,
) -> int:
    """`cells` are those that all had to be reached."""
    reached = [crash for one in rounds for crash in one.reached]
    tried = {crash.cell for one in rounds for crash in one.crashes}
    missed = {*cells, *tried} - {crash.cell for crash in reached}
    is_exact = all(one.is_exact for one in rounds)
    print()
    print(f"{len(reached)} crashes in {len(rounds)} rounds, {len(missed)} cells not reached")
    for one in rounds:
        for table in sorted({*one.missing, *one.twice}):
            missing, twice = one.missing.get(table, 0), one.twice.get(table, 0)
            print(f"{table}: {missing} rows missing, {twice} rows too many (round {one.number})")
    if args.all or args.results:
        path = Path(args.results or "crash-matrix.json")
        content = {
            "application": application.name,
            "seed": args.seed,
            "is_exact": is_exact,
            "not_reached": sorted(map(str, missed)),
            "rounds": [one.as_json() for one in rounds],
        }
        path.write_text(json.dumps(content, indent=1) + "\n")
        print(f"results: {path}")
    if is_exact:
        shutil.rmtree(place, ignore_errors=True)
        if not reached or (args.all and missed):
            print("not proved: crashes that were not reached show nothing")
            return ExitCode.FAILED
        print("nothing lost, nothing twice")
        return ExitCode.OK
    print(f"seed {args.seed}; what was written is kept in {place}")
    return ExitCode.FAILED
