"""The streams and outputs of one context, in the order in which the program declared them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.dstream.nodes import SAVED_AT_LEAST_EVERY_MS, Node
from headwater.dstream.outputs import Output
from headwater.errors import CheckpointDirectoryMissing, ContextAlreadyStarted, NoOutputs

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

    from headwater.dstream.engine import Engine


class Program:
    """What was declared; once started, where it is (`nodes.Timeline`)."""

    def __init__(self, context: SparkContext, interval_ms: int) -> None:
        self.spark_context = context
        self.interval_ms = interval_ms
        self.nodes: list[Node] = []
        self.outputs: list[Output] = []
        self.remembered_ms = 0
        self._writes: list[tuple[int, str]] = []
        self.engine: Engine | None = None

    @property
    def zero_ms(self) -> int:
        return 0 if self.engine is None else self.engine.zero_ms

    def input_rdd(self, node: Node, time_ms: int) -> RDD[Any]:
        assert self.engine is not None
        return self.engine.input_rdd(node, time_ms)

    def add(self, node: Node) -> Node:
        self._require_open("a new stream")
        self.nodes.append(node)
        return node

    def add_output(self, output: Output) -> None:
        self._require_open("a new output")
        self.outputs.append(output)

    def settle(self, *, has_checkpoint: bool) -> None:
        """Decides, before the start, what is saved and how long each node remembers."""
        if not self.outputs:
            raise NoOutputs()
        for node in self.nodes:
            if node.must_save and not has_checkpoint:
                raise CheckpointDirectoryMissing(type(node).__name__)
            if node.must_save and node.save_every_ms is None:
                slides = -(-SAVED_AT_LEAST_EVERY_MS // node.slide_ms)
                node.save_every_ms = slides * node.slide_ms
            if not has_checkpoint:
                node.save_every_ms = None
            node.remember(self.remembered_ms)
        # A child is declared after its parents: from the last to the first, all demands are known.
        for node in reversed(self.nodes):
            node.ask_parents()

    def key_of_write(self, node: Node, path: str) -> str:
        """The same at every start, for this stream and this place, and another one if it writes
        there once more."""
        write = (self.nodes.index(node), path)
        self._writes.append(write)
        return f"{write[0]} {path} {self._writes.count(write)}"

    def chained(self) -> list[Node]:
        """The nodes that must be made at every time they are due, although nobody asks: the next
        RDD stands on this one. Only those that an output stands on."""
        used = {output.node for output in self.outputs}
        for node in reversed(self.nodes):
            if node in used:
                used.update(node.parents)
        return [node for node in self.nodes if node in used and node.must_save]

    def _require_open(self, what: str) -> None:
        if self.engine is not None:
            raise ContextAlreadyStarted(what)
