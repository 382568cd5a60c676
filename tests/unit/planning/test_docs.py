"""The tables of docs/reference about sinks against the connectors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from headwater import connectors
from headwater.connectors.interface import Connector
from headwater.definitions import OutputMode, TriggerKind

DOCS = Path(__file__).parents[3] / "docs" / "reference"

SINKS: dict[str, tuple[Connector, bool]] = {
    **{name: (getattr(connectors, name)("out"), False) for name in ("text", "csv", "json")},
    **{name: (getattr(connectors, name)("out"), False) for name in ("parquet", "orc", "delta")},
    "delta with key": (connectors.delta("out"), True),
    "postgres": (connectors.postgres("out"), False),
    "postgres with key": (connectors.postgres("out"), True),
    "mariadb": (connectors.mariadb("out"), False),
    "mariadb with key": (connectors.mariadb("out"), True),
    "jdbc": (connectors.jdbc("out", connection="c"), False),
    "redis with key": (connectors.redis("out"), True),
    "kafka": (connectors.kafka("out"), False),
    "memory": (connectors.memory(), False),
    "console": (connectors.console(), False),
    "foreach_batch": (connectors.foreach_batch(print), False),
    "foreach": (connectors.foreach(print), False),
}


def rows_of(page: str, head: str) -> list[list[str]]:
    """The cells of the Markdown table whose first column is called `head`."""
    lines = (DOCS / page).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {head} |")) + 2
    found = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def documented() -> dict[str, set[OutputMode]]:
    return {
        name.strip(): {mode for mode, cell in zip(OutputMode, cells, strict=False) if cell == "yes"}
        for names, *cells in rows_of("modes.md", "sink")
        for name in names.split(",")
    }


@pytest.mark.parametrize("sink", SINKS)
def test_the_page_says_which_modes_a_sink_takes(sink: str) -> None:
    connector, has_key = SINKS[sink]
    assert documented()[sink] == set(connector.modes(has_key=has_key))


def test_the_page_names_every_sink() -> None:
    assert set(documented()) == set(SINKS)


class Yours:
    @classmethod
    def name(cls) -> str:
        return "yours"


def guaranteed() -> dict[str, list[Connector]]:
    """The rows of the guarantees page with the sinks that each stands for."""
    return {
        "delta": [connectors.delta("out"), connectors.delta()],
        "json, csv, parquet, orc, text": [
            getattr(connectors, name)("out") for name in ("json", "csv", "parquet", "orc", "text")
        ],
        "postgres, mariadb, jdbc": [
            connectors.postgres("out"),
            connectors.mariadb("out"),
            connectors.jdbc("out", connection="c"),
        ],
        "redis": [connectors.redis("out")],
        "kafka": [connectors.kafka("out")],
        "kafka without a topic": [connectors.kafka()],
        "foreach_batch(…, idempotent=True)": [connectors.foreach_batch(print, idempotent=True)],
        "foreach_batch": [connectors.foreach_batch(print)],
        "foreach": [connectors.foreach(print)],
        "custom(Yours, idempotent=True)": [connectors.custom(Yours, idempotent=True)],
        "custom(Yours)": [connectors.custom(Yours)],
        "console": [connectors.console()],
        "memory": [connectors.memory()],
    }


def in_words(sink: Connector, mode: OutputMode) -> tuple[str, str, str]:
    found = sink.idempotence(mode, has_key=True)
    held = "exactly-once" if found.is_held else "at-least-once"
    return held, found.reason.replace("`", ""), found.condition.replace("`", "")


def test_the_guarantees_page_says_what_the_sinks_say() -> None:
    documented = {
        (name.replace("`", ""), OutputMode(mode.strip())): tuple(c.replace("`", "") for c in cells)
        for name, modes, *cells in rows_of("guarantees.md", "sink")
        for mode in modes.split(",")
    }
    found = {
        (name, mode): in_words(sink, mode)
        for name, sinks in guaranteed().items()
        for sink in sinks
        for mode in sink.modes(has_key=True)
    }
    assert documented == found


def test_the_guarantees_page_names_every_sink() -> None:
    named = {type(sink) for sinks in guaranteed().values() for sink in sinks}
    made = {
        kind
        for module in list(sys.modules.values())
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Connector)
        and kind.writes
        and kind.__module__.startswith("headwater.connectors.")
    }
    assert all(any(issubclass(kind, base) for kind in named) for base in made)


def test_the_triggers_page_has_a_column_per_kind() -> None:
    head = (DOCS / "triggers.md").read_text().split("| | ", 1)[1].split("\n", 1)[0]
    assert [cell.strip() for cell in head.strip("|").split("|")][:6] == [
        kind.value for kind in TriggerKind
    ]


@pytest.mark.parametrize(
    "row",
    [
        "interval",
        "task type",
        "latency",
        "throughput",
        "commit type",
        "log before or after",
        "semantics",
        "epoch markers",
    ],
)
def test_the_triggers_page_fills_every_row(row: str) -> None:
    cells = next(
        line for line in (DOCS / "triggers.md").read_text().splitlines() if f"| {row}" in line
    )
    assert all(cell.strip() for cell in cells.strip("|").split("|"))


def test_the_triggers_page_tells_what_was_measured() -> None:
    """By examples/latency, which stores its results."""
    stored = json.loads((DOCS.parents[1] / "examples/latency/result.json").read_text())
    lines = (DOCS / "triggers.md").read_text().splitlines()
    latency, throughput = (
        next(line for line in lines if line.startswith(f"| {row}"))
        for row in ("latency", "throughput")
    )
    for one in stored["results"]:
        assert f"{one['p50_ms']:.3g} / {one['p99_ms']:.3g} ms" in latency, one["trigger"]
        assert f"{one['burst_rows_per_s']:,} rows/s" in throughput, one["trigger"]
