"""RDDs that outlive the program: saved state, and the shape of the program that it belongs to.

<checkpoint>/dstream/<run>/query       offsets and commits, as Structured Streaming writes them
<checkpoint>/dstream/<run>/program     what the program is made of
<checkpoint>/dstream/<run>/saved/<n>   where the RDDs of node n are, by time
<checkpoint>/dstream/<run>/rdds        the RDDs themselves, as Spark saves them
<checkpoint>/dstream/<run>/received    what receivers stored, before it is processed
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.dstream.nodes import Node
from headwater.errors import DStreamProgramChanged
from headwater.runtime.storage import Files, last_number

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext


@dataclass(frozen=True, slots=True)
class Home:
    """Where one run of a program, with all its restarts, keeps what must outlive it."""

    folder: str

    @property
    def query(self) -> str:
        return f"{self.folder}/query"

    @property
    def rdds(self) -> str:
        return f"{self.folder}/rdds"

    @property
    def program(self) -> str:
        return f"{self.folder}/program"

    def saved(self, number: int) -> str:
        return f"{self.folder}/saved/{number}"

    def received(self, number: int) -> str:
        return f"{self.folder}/received/{number}"


def newest_home(files: Files, checkpoint: str) -> Home | None:
    """The run that a restarted program goes on with."""
    number = last_number(files, f"{checkpoint}/dstream")
    return None if number is None else Home(f"{checkpoint}/dstream/{number}")


def next_home(files: Files, checkpoint: str) -> Home:
    """A program that starts anew leaves what earlier ones wrote alone."""
    number = last_number(files, f"{checkpoint}/dstream")
    return Home(f"{checkpoint}/dstream/{0 if number is None else number + 1}")


class Saved:
    """The saved RDDs of a program's nodes."""

    def __init__(self, files: Files, home: Home, nodes: Sequence[Node]) -> None:
        self._files = files
        self._home = home
        self._nodes = nodes
        self._noted: list[set[int]] = [set() for _ in nodes]

    def check_program(self, interval_ms: int, begun_ms: int) -> int:
        """When the program was first made. Raises DStreamProgramChanged where it is another one."""
        shape = [[type(n).__name__, [self._nodes.index(p) for p in n.parents]] for n in self._nodes]
        shape = json.loads(json.dumps(shape))
        if not self._files.exists(self._home.program):
            about = {"interval_ms": interval_ms, "begun_ms": begun_ms, "nodes": shape}
            self._files.write(self._home.program, json.dumps(about))
            return begun_ms
        about = json.loads(self._files.read(self._home.program))
        if about["interval_ms"] != interval_ms:
            raise DStreamProgramChanged(
                self._home.folder,
                found=f"a batch interval of {interval_ms} ms",
                expected=f"{about['interval_ms']} ms",
            )
        if about["nodes"] != shape:
            raise DStreamProgramChanged(
                self._home.folder,
                found=f"{len(shape)} streams: {_kinds(shape)}",
                expected=f"{len(about['nodes'])} streams: {_kinds(about['nodes'])}",
            )
        return int(about["begun_ms"])

    def restore(self, context: SparkContext, until_ms: int) -> None:
        """Gives every node its saved RDDs."""
        for number, node in enumerate(self._nodes):
            for time in self._times(number):
                if time <= until_ms:
                    note = json.loads(self._files.read(f"{self._home.saved(number)}/{time}"))
                    node.made[time] = _read(context, note)
                    self._noted[number].add(time)

    def note(self, time_ms: int) -> None:
        """Notes what Spark has saved until a time, and drops what is older than needed."""
        for number, node in enumerate(self._nodes):
            if node.save_every_ms is None:
                continue
            # A window that slides further than its parent asks for the RDDs of earlier times.
            due = [time for time in node.made if node.is_saved_at(time)]
            for time in sorted(set(due) - self._noted[number]):
                rdd = node.made[time]
                if time == time_ms and not rdd.isCheckpointed():
                    # No output asked for it at this time: make it, or its lineage would grow.
                    rdd._jrdd.count()
                path = rdd.getCheckpointFile()
                if path is not None:
                    note = {"path": path, "partitions": _partitions(rdd)}
                    self._files.write(f"{self._home.saved(number)}/{time}", json.dumps(note))
                    self._noted[number].add(time)
                    self._drop_old(number, time_ms - node.asked_ms)

    def _drop_old(self, number: int, asked_ms: int) -> None:
        """Keeps what may be asked for, and one before it, on which the next ones stand."""
        older = [time for time in self._times(number) if time <= asked_ms]
        for time in older[:-1]:
            name = f"{self._home.saved(number)}/{time}"
            path = json.loads(self._files.read(name))["path"].removeprefix("file:")
            self._files.remove(name)
            self._files.remove(path)
            self._noted[number].discard(time)

    def _times(self, number: int) -> list[int]:
        names = self._files.names(self._home.saved(number))
        return sorted(int(name) for name in names if name.isdigit())


def _partitions(rdd: RDD[Any]) -> int | None:
    """How many partitions Spark's own hash has made; None where it was not that."""
    from pyspark.core.rdd import Partitioner, portable_hash

    count = rdd.getNumPartitions()
    return count if rdd.partitioner == Partitioner(count, portable_hash) else None


def _read(context: SparkContext, note: Mapping[str, Any]) -> RDD[Any]:
    from pyspark import RDD
    from pyspark.core.rdd import Partitioner, portable_hash

    java: Any = context._jsc
    rdd: RDD[Any] = RDD(java.checkpointFile(note["path"]), context, context.serializer)
    if note["partitions"] is not None:
        # As the RDD was when it was saved: else the next batch would shuffle it again.
        rdd.partitioner = Partitioner(note["partitions"], portable_hash)
    return rdd


def _kinds(shape: Sequence[Sequence[Any]]) -> str:
    return ", ".join(str(kind) for kind, _ in shape)
