"""The demo at 5,000 records a second from 2,000 devices, with every table, the model and the
console: whether the tables keep up, nothing is lost or twice, and how late an anomaly is told. The
default demo, too."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figure, figure
from bench.processes import HEADWATER
from headwater.observe.doctor.examination import examine
from headwater.observe.doctor.rules import advice

_RATE, _DEVICES, _SECONDS = 5000, 2000, 600
_LIMIT_S = 1500


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    """A run of minutes each, whatever `pairs` says: at the rate that is asked for, and as it is."""
    options = ["--rate", str(_RATE), "--devices", str(_DEVICES), "--for", f"{_SECONDS}s"]
    fast, plain = _ran(*options), _ran()
    figures = [
        *_figures("demo", fast),
        *_figures("default demo", plain)[1:],
        figure(
            "default demo, from start to verdict", [plain.took_s], 180, at_least=False, unit=" s"
        ),
    ]
    return figures, {"demo": _details(fast), "default demo": _details(plain)}


@dataclass(frozen=True)
class Run:
    said: str
    took_s: float
    advice: list[str]
    """While it ran, and of the doctor who is asked afterwards."""


def _ran(*options: str) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        command = [*HEADWATER, "demo", *options]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_LIMIT_S)
        took_s = time.monotonic() - began
        asked = advice(examine(Path(folder) / ".headwater", "demo"))
    print(run.stdout[-4000:], run.stderr[-3000:], flush=True)
    if run.returncode:
        raise RuntimeError(f"the demo ended with {run.returncode}")
    told = re.findall(r"^.*; advice: .*$", run.stdout, re.MULTILINE)
    told += [f"{one.table}: {one.finding}" for one in asked if not one.is_hint]
    return Run(run.stdout, took_s, told)


def _figures(name: str, run: Run) -> list[Figure]:
    said = run.said
    records, seconds = _said(r"wrote ([\d,]+) records in ([\d.]+) s", said)
    (behind,) = _said(r"at the end ([\d.]+) s later", said)
    missing, twice = _said(r"table raw: .*?([\d,]+) missing, ([\d,]+) twice", said)
    (in_kafka,) = _said(r"in Kafka after their readings: p50 ([\d.]+) s", said)
    (precision,), (recall,) = _said(r"precision ([\d.]+)", said), _said(r"recall ([\d.]+)", said)
    return [
        figure(
            f"{name}, records a second", [records / (seconds + behind)], 0.95 * _RATE, at_least=True
        ),
        figure(f"{name}, lost", [missing], 0, at_least=False),
        figure(f"{name}, twice", [twice], 0, at_least=False),
        figure(f"{name}, anomaly p50", [in_kafka], 2, at_least=False, unit=" s"),
        figure(f"{name}, precision", [precision], 0.9, at_least=True),
        figure(f"{name}, recall", [recall], 0.8, at_least=True),
        figure(f"{name}, retrainings", [_versions(said) - 1], 1, at_least=True),
        figure(f"{name}, pieces of advice", [len(run.advice)], 0, at_least=False),
    ]


def _details(run: Run) -> dict[str, Any]:
    said = run.said[run.said.rfind("The fleet wrote") :].splitlines()
    return {"advice": run.advice, "said": said}


def _versions(said: str) -> int:
    """Those of the baseline that were used."""
    return len(set(re.findall(r"^baseline: version (\d+) of ", said, re.MULTILINE)))


def _said(pattern: str, said: str) -> list[float]:
    """The numbers of the first line that fits."""
    found = re.search(pattern, said)
    assert found is not None, pattern
    return [float(text.replace(",", "")) for text in found.groups()]
