"""Figures with their goals, and the files they are kept in."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value against its goal; `at_least` says on which side of it is good."""

    name: str
    value: float
    goal: float
    at_least: bool
    low: float
    high: float
    unit: str = ""

    @property
    def is_reached(self) -> bool:
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def line(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "ok" if self.is_reached else "short"
        interval = f"[{self.low:.3g}, {self.high:.3g}]"
        measured = f"{self.value:.3g}{self.unit}"
        return f"{self.name:<44} {measured:>10} {interval:<18} {sign} {self.goal:g}  {verdict}"


def figure(
    name: str, samples: Sequence[float], goal: float, *, at_least: bool, unit: str = ""
) -> Figure:
    """The median of the samples with the range of their middle half."""
    ordered = sorted(samples)
    low, _, high = statistics.quantiles(ordered, n=4) if len(ordered) > 1 else ordered * 3
    return Figure(name, statistics.median(ordered), goal, at_least, low, high, unit)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between any two points (Theil and Sen): a machine that is busy for
    a while does not tilt it."""
    pairs = itertools.combinations(points, 2)
    return statistics.median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs)


def alternate(
    first: Callable[[], dict[str, float]], second: Callable[[], dict[str, float]], pairs: int
) -> list[tuple[dict[str, float], dict[str, float]]]:
    """Runs both sides in turn; which one begins changes from pair to pair."""
    results = []
    for number in range(pairs):
        if number % 2:
            other = second()
            mine = first()
        else:
            mine = first()
            other = second()
        print(f"pair {number + 1} of {pairs}: {_brief(mine)} | {_brief(other)}", flush=True)
        results.append((mine, other))
    return results


def _brief(values: dict[str, float]) -> str:
    return ", ".join(f"{key} {value:.4g}" for key, value in values.items())


def store(name: str, figures: list[Figure], details: Any) -> None:
    RESULTS.mkdir(exist_ok=True)
    content = {
        "name": name,
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} cores, {_memory_gb()} GB, {platform.system()}",
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("pyspark", "deltalake", "pyarrow")},
        },
        "figures": [asdict(item) for item in figures],
        "details": details,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def stored() -> list[tuple[dict[str, Any], list[Figure]]]:
    found = []
    for path in sorted(RESULTS.glob("*.json")):
        content = json.loads(path.read_text())
        found.append((content, [Figure(**item) for item in content["figures"]]))
    return found


def _memory_gb() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3)
