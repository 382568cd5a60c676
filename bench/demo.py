"""The demo at 5,000 records a second from 2,000 devices, with every table, the model and the
console: whether the tables keep up, nothing is lost or twice, and how late an anomaly is told."""

from __future__ import annotations

import re
import subprocess
import tempfile
from typing import Any

from bench.figures import Figure, figure
from bench.processes import HEADWATER

_RATE, _DEVICES, _SECONDS = 5000, 2000, 180
_LIMIT_S = 1500


def measure(*, pairs: int) -> tuple[list[Figure], Any]:
    """One run of minutes, whatever `pairs` says."""
    options = ["--rate", str(_RATE), "--devices", str(_DEVICES), "--for", f"{_SECONDS}s"]
    with tempfile.TemporaryDirectory() as folder:
        command = [*HEADWATER, "demo", *options]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_LIMIT_S)
    print(run.stdout[-3000:], run.stderr[-3000:], flush=True)
    said = run.stdout
    [(records, seconds)] = re.findall(r"wrote ([\d,]+) records in ([\d.]+) s", said)
    [behind] = re.findall(r"at the end ([\d.]+) s later", said)
    [(missing, twice)] = re.findall(r"([\d,]+) missing, ([\d,]+) twice", said)
    [(middle, last)] = re.findall(r"p50 ([\d.]+) s, p99 ([\d.]+) s", said)
    [precision, frozen] = re.findall(r"precision ([\d.]+)", said)
    [recall, _] = re.findall(r"recall ([\d.]+)", said)
    kept_up = _number(records) / (float(seconds) + float(behind))
    figures = [
        figure("demo, records a second", [kept_up], 0.95 * _RATE, at_least=True),
        figure("demo, lost", [_number(missing)], 0, at_least=False),
        figure("demo, twice", [_number(twice)], 0, at_least=False),
        figure("demo, anomaly p50", [float(middle)], 2, at_least=False, unit=" s"),
        figure("demo, precision", [float(precision)], 0.9, at_least=True),
        figure("demo, recall", [float(recall)], 0.8, at_least=True),
    ]
    details = {
        "code": run.returncode,
        "behind_s": float(behind),
        "anomaly_p99_s": float(last),
        "precision_without_learning": float(frozen),
        "said": said[said.rfind("The fleet wrote") :].splitlines(),
    }
    return figures, details


def _number(text: str) -> float:
    return float(text.replace(",", ""))
