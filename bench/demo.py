"""The demo at 5,000 records a second from 2,000 devices, with every table, the model and the
console: whether the tables keep up, nothing is lost or twice, and how late an anomaly is told. The
default demo, too."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from typing import Any

from bench.figures import Figure, figure
from bench.processes import HEADWATER

_RATE, _DEVICES, _SECONDS = 5000, 2000, 180
_LIMIT_S = 1500


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    """A run of minutes each, whatever `pairs` says: at the rate that is asked for, and as it is."""
    options = ["--rate", str(_RATE), "--devices", str(_DEVICES), "--for", f"{_SECONDS}s"]
    fast, _ = _ran(*options)
    plain, took_s = _ran()
    figures = [
        *_figures("demo", fast),
        *_figures("default demo", plain)[1:],
        figure("default demo, from start to verdict", [took_s], 180, at_least=False, unit=" s"),
    ]
    return figures, {"demo": _details(fast), "default demo": _details(plain)}


def _ran(*options: str) -> tuple[str, float]:
    """What a demo printed, and how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        command = [*HEADWATER, "demo", *options]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_LIMIT_S)
        took_s = time.monotonic() - began
    print(run.stdout[-4000:], run.stderr[-3000:], flush=True)
    if run.returncode:
        raise RuntimeError(f"the demo ended with {run.returncode}")
    return run.stdout, took_s


def _figures(name: str, said: str) -> list[Figure]:
    records, seconds = _said(r"wrote ([\d,]+) records in ([\d.]+) s", said)
    (behind,) = _said(r"at the end ([\d.]+) s later", said)
    missing, twice = _said(r"table raw: .*?([\d,]+) missing, ([\d,]+) twice", said)
    (in_kafka,) = _said(r"in Kafka after their readings: p50 ([\d.]+) s", said)
    (precision,), (recall,) = _said(r"precision ([\d.]+)", said), _said(r"recall ([\d.]+)", said)
    advice = float(len(_advice(said)))
    return [
        figure(
            f"{name}, records a second", [records / (seconds + behind)], 0.95 * _RATE, at_least=True
        ),
        figure(f"{name}, lost", [missing], 0, at_least=False),
        figure(f"{name}, twice", [twice], 0, at_least=False),
        figure(f"{name}, anomaly p50", [in_kafka], 2, at_least=False, unit=" s"),
        figure(f"{name}, precision", [precision], 0.9, at_least=True),
        figure(f"{name}, recall", [recall], 0.8, at_least=True),
        figure(f"{name}, retrainings", [said.count("baseline: version") - 1], 1, at_least=True),
        figure(f"{name}, pieces of advice", [advice], 0, at_least=False),
    ]


def _details(said: str) -> dict[str, Any]:
    return {"advice": _advice(said), "said": said[said.rfind("The fleet wrote") :].splitlines()}


def _advice(said: str) -> list[str]:
    return re.findall(r"^.*; advice: .*$", said, re.MULTILINE)


def _said(pattern: str, said: str) -> list[float]:
    """The numbers of the first line that fits."""
    found = re.search(pattern, said)
    assert found is not None, pattern
    return [float(text.replace(",", "")) for text in found.groups()]
