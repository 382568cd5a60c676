"""How good the findings are, by the truth about the faults: computed when everything is over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.demo.world import Fault, Kind

GRACE_S = 4.0
"""The longest window of a finding: its begin may lie so much before the fault."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What the pipeline says is wrong with a device, and the table that says so."""

    table: str
    device: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Judgement:
    findings: int
    right: int
    faults: dict[Kind, int]
    found: dict[Kind, int]

    @property
    def precision(self) -> float:
        return self.right / self.findings if self.findings else 1.0

    @property
    def recall(self) -> float:
        total = sum(self.faults.values())
        return sum(self.found.values()) / total if total else 1.0

    def recall_of(self, kind: Kind) -> float:
        return self.found[kind] / self.faults[kind] if self.faults[kind] else 1.0

    def lines(self) -> list[str]:
        kinds = [k for k in Kind if self.faults[k]]
        if not kinds:
            return ["  no fault began late enough to be judged by"]
        each = ", ".join(f"{k.value} {self.found[k]} of {self.faults[k]}" for k in kinds)
        return [
            f"  precision {self.precision:.2f}: {self.right:,} of {self.findings:,} findings",
            f"  recall {self.recall:.2f}: {each}",
        ]


def judged(
    faults: Iterable[Fault], findings: Sequence[Finding], *, since_s: float, until_s: float
) -> Judgement:
    """Findings from `since_s` on, and faults that began from then up to `until_s`. A finding is
    right where its device had a fault then; a fault is found where anything was found at its
    device meanwhile."""
    all_faults = list(faults)
    of_device: dict[str, list[Fault]] = {}
    for fault in all_faults:
        of_device.setdefault(fault.device, []).append(fault)
    counted = [finding for finding in findings if finding.at_s >= since_s]
    right, hit = 0, set()
    for finding in counted:
        met = [f for f in of_device.get(finding.device, []) if _meets(finding, f)]
        right += bool(met)
        hit.update(met)
    judged_by = [fault for fault in all_faults if since_s <= fault.start_s <= until_s]
    return Judgement(
        findings=len(counted),
        right=right,
        faults={kind: sum(f.kind is kind for f in judged_by) for kind in Kind},
        found={kind: sum(f.kind is kind and f in hit for f in judged_by) for kind in Kind},
    )


def _meets(finding: Finding, fault: Fault) -> bool:
    return fault.start_s - GRACE_S <= finding.at_s < fault.end_s


def read_truth(path: Path) -> list[Fault]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    found = (json.loads(line) for line in lines)
    return [Fault(**(fault | {"kind": Kind(fault["kind"])})) for fault in found]
