"""Reads a DStream program, without running it: what it uses, what of it runs, what differs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from headwater import dstream
from headwater.dstream.unsupported import REPLACEMENTS

_MODULE = ".".join(["pyspark", "streaming"])

_OF_KAFKA = (
    "KafkaUtils",
    "KafkaMessageAndMetadata",
    "OffsetRange",
    "TopicAndPartition",
    "utf8_decoder",
)
_NEW_FILES = (
    "a file that comes while the program is down is read at the next start; "
    "one that is replaced under its name is not read again; names that begin with `_` are left out"
)
NOTES = {
    "getOrCreate": "the set-up function runs at every start, so code may change; "
    "only data comes from the checkpoint",
    "getActiveOrCreate": "as getOrCreate",
    "queueStream": "after a restart the queue goes on at the batch that was not committed, "
    "if the set-up function fills it again",
    "socketTextStream": "lines are stored before they are processed; storageLevel has no effect",
    "textFileStream": _NEW_FILES,
    "binaryRecordsStream": _NEW_FILES,
    "saveAsTextFiles": "a folder that a crash left half-written is written again",
    "updateStateByKey": "state is saved every 10 s; nothing is lost between two savings, "
    "because the input is read again",
    "awaitTermination": "raises with your own line where a batch failed",
    "awaitTerminationOrTimeout": "raises with your own line where a batch failed",
    "createDirectStream": "exactly once; offsets live in the checkpoint, group.id has no effect",
    "transformWith": "keepSerializer has no effect",
}
"""What differs from Spark's own, by method."""


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
        elif isinstance(node, ast.Import):
            new = ast.unparse(node).replace(_MODULE, "headwater.dstream")
        else:
            continue
        if new != ast.unparse(node):
            yield ImportLine(node.lineno, ast.unparse(node), new)


def _new_import(node: ast.ImportFrom) -> str:
    names = [ast.unparse(alias) for alias in node.names]
    if node.module is not None and node.module.startswith(_MODULE):
        is_kafka = node.module.endswith(".kafka")
        home = "headwater.dstream.kafka" if is_kafka else "headwater.dstream"
        known = _OF_KAFKA if is_kafka else dstream.__all__
        kept = [ast.unparse(alias) for alias in node.names if alias.name in known]
        return f"from {home} import {', '.join(kept)}" if kept else "(remove it)"
    contexts = [name for name in names if name.split(" ")[0] == "SparkContext"]
    if node.module == "pyspark" and contexts:
        lines = [f"from headwater.dstream import {contexts[0]}"]
        others = [name for name in names if name not in contexts]
        if others:
            lines.append(f"from pyspark import {', '.join(others)}")
        return "\n".join(lines)
    return ast.unparse(node)


def _findings(tree: ast.Module) -> Iterator[Finding]:
    known = _known()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Constant) or ast.unparse(node.value) == "os.path":
                # join and count of a text, or of a path
                continue
            name = node.attr
        elif isinstance(node, ast.Name):
            name = node.id
        else:
            continue
        if name in REPLACEMENTS:
            yield Finding(node.lineno, name, Verdict.MISSING, REPLACEMENTS[name][1])
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
