"""What a DStream is made of: a node gives one RDD per slide, from the RDDs of its parents.

Times are milliseconds and multiples of the batch interval. A node remembers its RDDs for as long as
a window or a state may ask for them; an RDD of an earlier batch that is no longer there is computed
again from the input of that batch, which is how a restarted program finds its windows and state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext, StorageLevel

SAVED_AT_LEAST_EVERY_MS = 10_000
"""How often state is saved where the program does not say: every 10 s, or every slide if longer."""

REWORK_BELOW_SLIDES = 5
"""A window shorter than this many slides is reduced anew: one reduction is cheaper than three."""


class Timeline(Protocol):
    """Where a running program is, and what it reads, for nodes."""

    @property
    def spark_context(self) -> SparkContext: ...

    @property
    def zero_ms(self) -> int:
        """One interval before the first batch ever."""

    def input_rdd(self, node: Node, time_ms: int) -> RDD[Any]:
        """What an input has for a batch, now or once more."""


class Node(ABC):
    """One DStream of a program."""

    def __init__(self, timeline: Timeline, slide_ms: int, parents: Sequence[Node]) -> None:
        self.timeline = timeline
        self.slide_ms = slide_ms
        self.parents = tuple(parents)
        self.level: StorageLevel | None = None
        self.save_every_ms: int | None = None
        self.remembered_ms = slide_ms
        self.asked_ms = slide_ms
        """How far back its RDDs may be asked for after a restart."""
        self.made: dict[int, RDD[Any]] = {}
        self._nothing: set[int] = set()
        """Due times without an RDD: a function of the user's gave none."""

    @abstractmethod
    def compute(self, time_ms: int) -> RDD[Any] | None:
        """The RDD of a time at which this node is due."""

    def needs(self, parent: Node) -> int:
        """For how long the RDDs of a parent are asked for, in milliseconds."""
        return parent.slide_ms

    @property
    def reach_ms(self) -> int:
        """How far back it may have to be computed for what is asked of it after a restart."""
        if not self.must_save:
            return self.asked_ms
        # A saved RDD is at most two rounds older: one may have been cut short.
        return self.asked_ms + 2 * (self.save_every_ms or self.slide_ms)

    @property
    def must_save(self) -> bool:
        """Whether each RDD stands on the one before, so that only saving ends the chain."""
        return False

    def is_due(self, time_ms: int) -> bool:
        since = time_ms - self.timeline.zero_ms
        return since > 0 and since % self.slide_ms == 0

    def rdd(self, time_ms: int) -> RDD[Any] | None:
        """The RDD of a time; None where the node is not due then."""
        if time_ms in self.made:
            return self.made[time_ms]
        if time_ms in self._nothing or not self.is_due(time_ms):
            return None
        rdd = self.compute(time_ms)
        if rdd is None:
            self._nothing.add(time_ms)
            return None
        is_saved = self.is_saved_at(time_ms)
        if is_saved:
            rdd = rdd._reserialize(self.timeline.spark_context.serializer)
        if self.level is not None and not rdd.is_cached:
            rdd.persist(self.level)
        if is_saved:
            rdd.checkpoint()
        self.made[time_ms] = rdd
        return rdd

    def rdd_before(self, time_ms: int) -> RDD[Any] | None:
        """The RDD of the slide before. What is missing is made one after the other, from the
        oldest: as calls within calls, a long way would be too deep.
        """
        missing = []
        before = time_ms - self.slide_ms
        while before not in self.made and before not in self._nothing and self.is_due(before):
            missing.append(before)
            before -= self.slide_ms
        for time in reversed(missing):
            self.rdd(time)
        return self.rdd(time_ms - self.slide_ms)

    def is_saved_at(self, time_ms: int) -> bool:
        if self.save_every_ms is None:
            return False
        return (time_ms - self.timeline.zero_ms) % self.save_every_ms == 0

    def between(self, first_ms: int, last_ms: int) -> list[RDD[Any]]:
        """The RDDs of the due times from first to last, both included; a time in between two
        stands for the one before."""
        since = first_ms - self.timeline.zero_ms
        start = self.timeline.zero_ms + since // self.slide_ms * self.slide_ms
        found = [self.rdd(time) for time in range(start, last_ms + 1, self.slide_ms)]
        return [rdd for rdd in found if rdd is not None]

    def remember(self, duration_ms: int) -> None:
        """Keeps RDDs at least this long."""
        self.remembered_ms = max(self.remembered_ms, duration_ms)
        self.asked_ms = max(self.asked_ms, self.remembered_ms)

    def ask_parents(self) -> None:
        """Tells the parents how long to keep RDDs, and how far back these may be asked for."""
        for parent in self.parents:
            parent.remember(self.needs(parent))
            span_ms = self.reach_ms + self.needs(parent) - parent.slide_ms
            parent.asked_ms = max(parent.asked_ms, span_ms)

    def forget(self, now_ms: int) -> None:
        self._nothing = {time for time in self._nothing if time > now_ms - self.remembered_ms}
        for time in [time for time in self.made if time <= now_ms - self.remembered_ms]:
            rdd = self.made.pop(time)
            if rdd.is_cached and self.level is not None:
                rdd.unpersist(blocking=False)


class Queue(Node):
    """RDDs in a queue: one per batch, or all in the first; then the default, or nothing."""

    def __init__(
        self,
        timeline: Timeline,
        slide_ms: int,
        rdds: Sequence[RDD[Any]],
        *,
        one_at_a_time: bool,
        default: RDD[Any] | None,
    ) -> None:
        super().__init__(timeline, slide_ms, [])
        self._rdds = list(rdds)
        self._one_at_a_time = one_at_a_time
        self._default = default

    def compute(self, time_ms: int) -> RDD[Any] | None:
        position = (time_ms - self.timeline.zero_ms) // self.slide_ms - 1
        if self._one_at_a_time and position < len(self._rdds):
            return self._rdds[position]
        if not self._one_at_a_time and position == 0 and self._rdds:
            return self.timeline.spark_context.union(self._rdds)
        if self._default is not None:
            return self._default
        return self.timeline.spark_context.emptyRDD()


Transformation = Callable[..., "RDD[Any] | None"]


class Transformed(Node):
    """A function of the parents' RDDs and the time.

    `is_patient`: a parent that is not due counts as an empty RDD; else nothing is due either.
    """

    def __init__(
        self,
        timeline: Timeline,
        parents: Sequence[Node],
        function: Transformation,
        *,
        patient: bool,
    ) -> None:
        super().__init__(timeline, parents[0].slide_ms, parents)
        self._function = function
        self._is_patient = patient

    def compute(self, time_ms: int) -> RDD[Any] | None:
        rdds = [parent.rdd(time_ms) for parent in self.parents]
        if self._is_patient:
            rdds = [self.timeline.spark_context.emptyRDD() if r is None else r for r in rdds]
        elif None in rdds:
            return None
        return self._function(time_ms, *rdds)


class Windowed(Node):
    """The parent's RDDs of the last `window_ms`, as one."""

    def __init__(self, parent: Node, window_ms: int, slide_ms: int) -> None:
        super().__init__(parent.timeline, slide_ms, [parent])
        self._parent = parent
        self._window_ms = window_ms

    def needs(self, parent: Node) -> int:
        return self._window_ms

    def compute(self, time_ms: int) -> RDD[Any] | None:
        first = time_ms - self._window_ms + self._parent.slide_ms
        return _union(self.timeline, self._parent.between(first, time_ms))


Reduction = Callable[["RDD[Any] | None", "RDD[Any]"], "RDD[Any]"]


class ReducedWindow(Node):
    """The reduced values of a window, from those of the window before: what left is taken out,
    what came is put in. The work does not depend on the window's length.
    """

    def __init__(
        self,
        parent: Node,
        reduce: Reduction,
        invert: Callable[[RDD[Any], RDD[Any]], RDD[Any]],
        window_ms: int,
        slide_ms: int,
    ) -> None:
        super().__init__(parent.timeline, slide_ms, [parent])
        self._parent = parent
        self._reduce = reduce
        self._invert = invert
        self._window_ms = window_ms

    @property
    def must_save(self) -> bool:
        return True

    def needs(self, parent: Node) -> int:
        return self._window_ms + self.slide_ms

    def compute(self, time_ms: int) -> RDD[Any] | None:
        step = self._parent.slide_ms
        before = time_ms - self.slide_ms
        previous = self.rdd_before(time_ms)
        if previous is None or self._window_ms < self.slide_ms * REWORK_BELOW_SLIDES:
            whole = self._parent.between(time_ms - self._window_ms + step, time_ms)
            return self._reduce(None, _union(self.timeline, whole)) if whole else None
        left = self._parent.between(before - self._window_ms + step, time_ms - self._window_ms)
        current = self._invert(previous, _union(self.timeline, left)) if left else previous
        came = self._parent.between(before + step, time_ms)
        return self._reduce(current, _union(self.timeline, came)) if came else current


class State(Node):
    """The state of every key, from the state before and the parent's new values."""

    def __init__(self, parent: Node, update: Reduction, initial: RDD[Any] | None) -> None:
        super().__init__(parent.timeline, parent.slide_ms, [parent])
        self._parent = parent
        self._update = update
        self._initial = initial

    @property
    def must_save(self) -> bool:
        return True

    def compute(self, time_ms: int) -> RDD[Any] | None:
        before = self.rdd_before(time_ms)
        if before is None:
            before = self._initial
        new = self._parent.rdd(time_ms)
        return before if new is None else self._update(before, new)


def _union(timeline: Timeline, rdds: Sequence[RDD[Any]]) -> RDD[Any]:
    if len(rdds) == 1:
        return rdds[0]
    if not rdds:
        return timeline.spark_context.emptyRDD()
    return timeline.spark_context.union(list(rdds))
