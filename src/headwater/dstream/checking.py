"""Reads a DStream program, without running it: what it uses, what of it runs, what differs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

_MODULE = ".".join(["pyspark", "streaming"])

NOTES = {
    "getOrCreate": "the set-up function runs at every start, so code may change; "
    "only data comes from the checkpoint",
    "getActiveOrCreate": "as getOrCreate",
    "queueStream": "after a restart the queue goes on at the batch that was not committed, "
    "if the set-up function fills it again",
    "socketTextStream": "lines are stored before they are processed; storageLevel has no effect",
    "textFileStream": "a file that comes while the program is down is read at the next start",
    "binaryRecordsStream": "a file that comes while the program is down is read at the next start",
    "saveAsTextFiles": "a folder that a crash left half-written is written again",
    "updateStateByKey": "state is saved every 10 s; nothing is lost between two savings, "
    "because the input is read again",
    "awaitTermination": "raises with your own line where a batch failed",
    "awaitTerminationOrTimeout": "raises with your own line where a batch failed",
    "createDirectStream": "exactly once; offsets live in the checkpoint, group.id has no effect",
    "transformWith": "keepSerializer has no effect",
}
"""What differs from Spark's own, by method."""

REPLACEMENTS = {
    "createStream": "KafkaUtils.createDirectStream, which needs no ZooKeeper",
    "createRDD": "spark.read.format('kafka') with starting and ending offsets",
    "createPollingStream": "a Receiver of your own, or a Kafka sink in Flume",
    "FlumeUtils": "a Receiver of your own, or a Kafka sink in Flume",
    "KinesisUtils": "a Receiver of your own, or a Kinesis source for Structured Streaming",
    "MQTTUtils": "a Receiver of your own",
    "ZeroMQUtils": "a Receiver of your own",
    "actorStream": "a Receiver of your own",
    "mapWithState": "updateStateByKey, or a table with transformWithState",
}
"""What Spark's Python API never had, or has lost, and what to use."""


class Verdict(Enum):
    RUNS = "runs unchanged"
    DIFFERS = "runs, with a difference"
    MISSING = "is not supported"


@dataclass(frozen=True, slots=True)
class Finding:
    """A use of the API at a line of the program."""

    line: int
    name: str
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True, slots=True)
class ImportLine:
    """An import to change: as it is, and as it has to be."""

    line: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What a program uses."""

    imports: tuple[ImportLine, ...]
    findings: tuple[Finding, ...]

    @property
    def runs(self) -> bool:
        return all(finding.verdict is not Verdict.MISSING for finding in self.findings)


def check(text: str) -> Checked:
    """Reads the text of a program. Raises SyntaxError where it is no Python."""
    tree = ast.parse(text)
    findings = sorted(_findings(tree), key=lambda finding: (finding.line, finding.name))
    return Checked(tuple(_imports(tree)), tuple(dict.fromkeys(findings)))


def _imports(tree: ast.Module) -> Iterator[ImportLine]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            new = _new_import(node)
            if new != ast.unparse(node):
                yield ImportLine(node.lineno, ast.unparse(node), new)


def _new_import(node: ast.ImportFrom) -> str:
    names = [alias.name for alias in node.names]
    if node.module is not None and node.module.startswith(_MODULE):
        home = "headwater.dstream"
        if node.module.endswith(".kafka"):
            home = "headwater.dstream.kafka"
        return f"from {home} import {', '.join(names)}"
    if node.module == "pyspark" and "SparkContext" in names:
        lines = ["from headwater.dstream import SparkContext"]
        others = [name for name in names if name != "SparkContext"]
        if others:
            lines.append(f"from pyspark import {', '.join(others)}")
        return "\n".join(lines)
    return ast.unparse(node)


def _findings(tree: ast.Module) -> Iterator[Finding]:
    known = _known()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = node.attr
        elif isinstance(node, ast.Name):
            name = node.id
        else:
            continue
        if name in REPLACEMENTS:
            yield Finding(node.lineno, name, Verdict.MISSING, REPLACEMENTS[name])
        elif name in NOTES:
            yield Finding(node.lineno, name, Verdict.DIFFERS, NOTES[name])
        elif name in known:
            yield Finding(node.lineno, name, Verdict.RUNS)


def _known() -> set[str]:
    from headwater.dstream.context import StreamingContext
    from headwater.dstream.stream import DStream

    names = {*vars(DStream), *vars(StreamingContext)}
    # Words that other objects have as methods too say nothing about a program.
    return {name for name in names if not name.startswith("_")} - {"context", "start", "stop"}
