"""A record of the history as a sentence."""

from __future__ import annotations

from typing import Any

from headwater.observe.doctor.cases import batch_of
from headwater.observe.lines import batch_line
from headwater.runtime.history import Record


def story(record: Record) -> str:
    """What happened, in words; events of a newer version are told by their facts."""
    facts = record.facts
    match record.kind:
        case "BatchCompleted":
            return batch_line([batch_of(record)])
        case "PipelineStarted":
            return f"{facts['pipeline']}: started with {', '.join(facts['tables'])}"
        case "PipelineStopped":
            return f"{facts['pipeline']}: stopped"
        case "QueryStarted" if facts["resumed_after"] is None:
            return f"{facts['table']}: started, new"
        case "QueryStarted":
            return f"{facts['table']}: resumed after batch {facts['resumed_after']}"
        case "QueryStopped":
            how = "stopped by force" if facts["was_forced"] else "stopped"
            return f"{facts['table']}: {how} after {_batch(facts)}"
        case "QueryFailed":
            return f"{facts['table']}: failed after {_batch(facts)}\n{facts['message']}"
        case "QueryRestarting":
            wait = f"{facts['attempt']} in {facts['wait_s']:.0f} s"
            return f"{facts['table']}: failed, {wait}: {facts['reason']}"
        case "RejectedCaptured":
            return f"{facts['source']}: {facts['rows']:,} rejected, see {facts['source']}__rejected"
        case "LateCaptured":
            rows, batch = facts["rows"], facts["batch"]
            missed = "1 window was" if rows == 1 else f"{rows:,} windows were"
            table = facts["table"]
            return f"{table}: {missed} missed up to batch {batch}, see {table}__late"
        case "LookupReloaded" if facts["problem"] is None:
            return f"{facts['lookup']}: changed, joined from the next batch on"
        case "LookupReloaded":
            return f"{facts['lookup']}: could not be read again: {facts['problem']}"
        case "GapsFound":
            return f"{facts['source']}: gone before {facts['table']} read it: " + "; ".join(
                facts["gaps"]
            )
        case "AdviceGiven":
            return f"{facts['table']}: {facts['finding']}; advice: {facts['setting']}"
        case "ModelTrained":
            took = f"{facts['rows']:,} rows in {facts['seconds']:.1f} s"
            return f"{facts['model']}: version {facts['version']} trained on {took}{_score(facts)}"
        case "ModelPublished":
            how = "waits, another is pinned" if facts.get("is_waiting") else "is used from now on"
            return f"{facts['model']}: version {facts['version']} {how}{_score(facts)}"
        case "ModelRefused":
            kept = f"version {facts['running']} stays" if facts["running"] else "none is used"
            version = facts["version"]
            return f"{facts['model']}: version {version} refused, {kept}: {facts['reason']}"
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)


def _score(facts: dict[str, Any]) -> str:
    if facts.get("score") is None:
        return ""
    before = facts.get("previous_score")
    return f", score {facts['score']:.4g}" + (f" after {before:.4g}" if before is not None else "")


def _batch(facts: dict[str, Any]) -> str:
    last = facts["last_batch"]
    return "no batch" if last is None else f"batch {last}"
