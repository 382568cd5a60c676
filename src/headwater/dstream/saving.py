"""RDDs that outlive the program: saved state, and the shape of the program that it belongs to.

<checkpoint>/dstream/<run>/query       offsets and commits, as Structured Streaming writes them
<checkpoint>/dstream/<run>/program     what the program is made of
<checkpoint>/dstream/<run>/saved/<n>   where the RDDs of node n are, by time
<checkpoint>/dstream/<run>/rdds        the RDDs themselves, as Spark saves them
<checkpoint>/dstream/<run>/received    what receivers stored, before it is processed
"""

from __future__ import annotations

import json
from collections.abc import Sequence
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

    _KEPT = 2

    def __init__(self, files: Files, home: Home, nodes: Sequence[Node]) -> None:
        self._files = files
        self._home = home
        self._nodes = nodes

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
        """Gives every node its newest saved RDD."""
        for number, node in enumerate(self._nodes):
            times = [t for t in self._times(number) if t <= until_ms]
            if times:
                path = self._files.read(f"{self._home.saved(number)}/{times[-1]}")
                node.made[times[-1]] = _read(context, path)

    def note(self, time_ms: int) -> None:
        """Notes what Spark has saved for a time, and drops what is older than needed."""
        for number, node in enumerate(self._nodes):
            rdd = node.made.get(time_ms)
            if rdd is None or not node.is_saved_at(time_ms):
                continue
            if not rdd.isCheckpointed():
                # No output asked for it at this time: make it, or its lineage would grow.
                rdd._jrdd.count()
            path = rdd.getCheckpointFile()
            if path is None:
                continue
            self._files.write(f"{self._home.saved(number)}/{time_ms}", path)
            for old in self._times(number)[: -self._KEPT]:
                self._drop(f"{self._home.saved(number)}/{old}")

    def _drop(self, note: str) -> None:
        path = self._files.read(note).removeprefix("file:")
        self._files.remove(note)
        self._files.remove(path)

    def _times(self, number: int) -> list[int]:
        names = self._files.names(self._home.saved(number))
        return sorted(int(name) for name in names if name.isdigit())


def _read(context: SparkContext, path: str) -> RDD[Any]:
    from pyspark import RDD
    from pyspark.core.rdd import Partitioner, portable_hash

    java: Any = context._jsc
    rdd: RDD[Any] = RDD(java.checkpointFile(path), context, context.serializer)
    # As the RDD was when it was saved: else the next batch would shuffle it again.
    rdd.partitioner = Partitioner(rdd.getNumPartitions(), portable_hash)
    return rdd


def _kinds(shape: Sequence[Sequence[Any]]) -> str:
    return ", ".join(str(kind) for kind, _ in shape)
