"""DStream: a sequence of RDDs, one per batch, and what can be done with it."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headwater.dstream.nodes import Node, ReducedWindow, State, Transformed, Windowed
from headwater.dstream.outputs import Output, printing, text_files
from headwater.dstream.unsupported import Explains
from headwater.errors import InvalidCheckpointInterval, InvalidWindow, SlidesDiffer

if TYPE_CHECKING:
    from pyspark import RDD, StorageLevel
    from pyspark.sql.types import StructType

    from headwater.dstream.context import StreamingContext
    from headwater.dstream.frames import DataFrameStream

T = TypeVar("T")


class DStream(Explains, Generic[T]):
    """A stream of RDDs with the methods of Spark's own DStream.

    ```python
    words = ssc.socketTextStream("localhost", 9999).flatMap(str.split)
    words.map(lambda word: (word, 1)).reduceByKey(operator.add).pprint()
    ```
    """

    def __init__(self, node: Node, ssc: StreamingContext) -> None:
        self._node = node
        self._ssc = ssc
        self._sc = ssc.sparkContext
        self.is_cached = False
        self.is_checkpointed = False

    def context(self) -> StreamingContext:
        """The context that the stream belongs to."""
        return self._ssc

    # One element after the other

    def map(self, f: Callable[[Any], Any], preservesPartitioning: bool = False) -> DStream[Any]:
        """f of each element."""
        return self.mapPartitions(lambda elements: map(f, elements), preservesPartitioning)

    def flatMap(
        self, f: Callable[[Any], Iterable[Any]], preservesPartitioning: bool = False
    ) -> DStream[Any]:
        """All that f gives for each element."""
        return self.mapPartitions(
            lambda elements: chain.from_iterable(map(f, elements)), preservesPartitioning
        )

    def filter(self, f: Callable[[Any], Any]) -> DStream[Any]:
        """The elements for which f is true."""
        return self.mapPartitions(lambda elements: filter(f, elements), True)

    def mapPartitions(
        self, f: Callable[[Iterable[Any]], Iterable[Any]], preservesPartitioning: bool = False
    ) -> DStream[Any]:
        """f of the elements of each partition."""
        return self.mapPartitionsWithIndex(lambda _, elements: f(elements), preservesPartitioning)

    def mapPartitionsWithIndex(
        self, f: Callable[[int, Iterable[Any]], Iterable[Any]], preservesPartitioning: bool = False
    ) -> DStream[Any]:
        """f of the number and the elements of each partition."""
        return self._each(lambda rdd: rdd.mapPartitionsWithIndex(f, preservesPartitioning))

    def mapValues(self, f: Callable[[Any], Any]) -> DStream[Any]:
        """f of the value of each pair."""
        return self.map(lambda pair: (pair[0], f(pair[1])), preservesPartitioning=True)

    def flatMapValues(self, f: Callable[[Any], Iterable[Any]]) -> DStream[Any]:
        """A pair for all that f gives for the value of each pair."""
        return self.flatMap(
            lambda pair: ((pair[0], value) for value in f(pair[1])), preservesPartitioning=True
        )

    def glom(self) -> DStream[Any]:
        """A list of the elements of each partition."""
        return self.mapPartitions(lambda elements: [list(elements)])

    # All elements of a batch

    def reduce(self, func: Callable[[Any, Any], Any]) -> DStream[Any]:
        """One element per batch that has any."""
        pairs = self.map(lambda element: (None, element))
        return pairs.reduceByKey(func, 1).map(operator.itemgetter(1))

    def count(self) -> DStream[int]:
        """How many elements each batch has."""
        return self.mapPartitions(lambda elements: [sum(1 for _ in elements)]).reduce(operator.add)

    def countByValue(self) -> DStream[Any]:
        """How often each element occurs in a batch."""
        return self.map(lambda element: (element, 1)).reduceByKey(operator.add)

    def reduceByKey(
        self, func: Callable[[Any, Any], Any], numPartitions: int | None = None
    ) -> DStream[Any]:
        """One value per key."""
        return self.combineByKey(lambda value: value, func, func, numPartitions)

    def combineByKey(
        self,
        createCombiner: Callable[[Any], Any],
        mergeValue: Callable[[Any, Any], Any],
        mergeCombiners: Callable[[Any, Any], Any],
        numPartitions: int | None = None,
    ) -> DStream[Any]:
        """One combined value per key."""
        count = self._partitions(numPartitions)
        return self._each(
            lambda rdd: rdd.combineByKey(createCombiner, mergeValue, mergeCombiners, count)
        )

    def groupByKey(self, numPartitions: int | None = None) -> DStream[Any]:
        """All values of each key."""
        count = self._partitions(numPartitions)
        return self._each(lambda rdd: rdd.groupByKey(count))

    def partitionBy(
        self, numPartitions: int, partitionFunc: Callable[[Any], int] | None = None
    ) -> DStream[Any]:
        """The pairs in partitions by their key."""
        from pyspark.core.rdd import portable_hash

        function = partitionFunc or portable_hash
        return self._each(lambda rdd: rdd.partitionBy(numPartitions, function))

    def repartition(self, numPartitions: int) -> DStream[Any]:
        """The elements spread over another number of partitions."""
        return self._each(lambda rdd: rdd.repartition(numPartitions))

    # Any function of RDDs

    def transform(self, func: Callable[..., RDD[Any]]) -> DStream[Any]:
        """func(rdd) or func(time, rdd) of each RDD."""
        timed = _with_time(func, rdds=1)
        return self._add(Transformed(self._ssc._program, [self._node], timed, patient=False))

    def transformWith(
        self, func: Callable[..., RDD[Any]], other: DStream[Any], keepSerializer: bool = False
    ) -> DStream[Any]:
        """func(rdd, other) or func(time, rdd, other) of the RDDs of two streams."""
        timed = _with_time(func, rdds=2)
        parents = [self._node, other._node]
        return self._add(Transformed(self._ssc._program, parents, timed, patient=True))

    def union(self, other: DStream[Any]) -> DStream[Any]:
        """The elements of both streams."""
        if self._node.slide_ms != other._node.slide_ms:
            raise SlidesDiffer("union", [self._slideDuration, other._slideDuration])
        return self.transformWith(lambda a, b: a.union(b), other)

    def cogroup(self, other: DStream[Any], numPartitions: int | None = None) -> DStream[Any]:
        """For each key the values of both streams."""
        return self._joined("cogroup", other, numPartitions)

    def join(self, other: DStream[Any], numPartitions: int | None = None) -> DStream[Any]:
        """A pair of values for each match of a key."""
        return self._joined("join", other, numPartitions)

    def leftOuterJoin(self, other: DStream[Any], numPartitions: int | None = None) -> DStream[Any]:
        """As join, with None where the other stream has no such key."""
        return self._joined("leftOuterJoin", other, numPartitions)

    def rightOuterJoin(self, other: DStream[Any], numPartitions: int | None = None) -> DStream[Any]:
        """As join, with None where this stream has no such key."""
        return self._joined("rightOuterJoin", other, numPartitions)

    def fullOuterJoin(self, other: DStream[Any], numPartitions: int | None = None) -> DStream[Any]:
        """As join, with None where either stream has no such key."""
        return self._joined("fullOuterJoin", other, numPartitions)

    # Windows

    def window(self, windowDuration: float, slideDuration: float | None = None) -> DStream[Any]:
        """The elements of the last windowDuration seconds, every slideDuration seconds."""
        window_ms, slide_ms = self._window(windowDuration, slideDuration)
        self._keep()
        return self._add(Windowed(self._node, window_ms, slide_ms))

    def reduceByWindow(
        self,
        reduceFunc: Callable[[Any, Any], Any],
        invReduceFunc: Callable[[Any, Any], Any] | None,
        windowDuration: float,
        slideDuration: float,
    ) -> DStream[Any]:
        """One element per window that has any; with the inverse, from the window before."""
        keyed = self.map(lambda element: (1, element))
        reduced = keyed.reduceByKeyAndWindow(
            reduceFunc, invReduceFunc, windowDuration, slideDuration, 1
        )
        return reduced.map(operator.itemgetter(1))

    def countByWindow(self, windowDuration: float, slideDuration: float) -> DStream[Any]:
        """How many elements each window has."""
        ones = self.map(lambda _: 1)
        return ones.reduceByWindow(operator.add, operator.sub, windowDuration, slideDuration)

    def countByValueAndWindow(
        self, windowDuration: float, slideDuration: float, numPartitions: int | None = None
    ) -> DStream[Any]:
        """How often each element occurs in a window."""
        counted = self.map(lambda element: (element, 1)).reduceByKeyAndWindow(
            operator.add, operator.sub, windowDuration, slideDuration, numPartitions
        )
        return counted.filter(lambda pair: pair[1] > 0)

    def groupByKeyAndWindow(
        self, windowDuration: float, slideDuration: float, numPartitions: int | None = None
    ) -> DStream[Any]:
        """All values of each key in a window."""
        from pyspark.resultiterable import ResultIterable

        lists = self.mapValues(lambda value: [value])
        grouped = lists.reduceByKeyAndWindow(
            _extended,
            lambda a, b: a[len(b) :],
            windowDuration,
            slideDuration,
            numPartitions,
        )
        return grouped.mapValues(ResultIterable)

    def reduceByKeyAndWindow(
        self,
        func: Callable[[Any, Any], Any],
        invFunc: Callable[[Any, Any], Any] | None,
        windowDuration: float,
        slideDuration: float | None = None,
        numPartitions: int | None = None,
        filterFunc: Callable[[Any], Any] | None = None,
    ) -> DStream[Any]:
        """One value per key and window.

        With `invFunc` a window is made from the one before; `filterFunc` then says which pairs
        to keep, because a key that left the window is otherwise kept with what is left of it.
        """
        window_ms, slide_ms = self._window(windowDuration, slideDuration)
        count = self._partitions(numPartitions)
        reduced = self.reduceByKey(func, count)
        if invFunc is None:
            windows = reduced.window(windowDuration, slideDuration)
            return windows.reduceByKey(func, count)

        def reduce(before: RDD[Any] | None, came: RDD[Any]) -> RDD[Any]:
            new = came.reduceByKey(func, count)
            now = new if before is None else before.union(new).reduceByKey(func, count)
            return now if filterFunc is None else now.filter(filterFunc)

        def invert(before: RDD[Any], left: RDD[Any]) -> RDD[Any]:
            matched = before.leftOuterJoin(left.reduceByKey(func, count), count)
            return matched.mapValues(
                lambda pair: pair[0] if pair[1] is None else invFunc(pair[0], pair[1])
            )

        reduced._keep()
        node = ReducedWindow(reduced._node, reduce, invert, window_ms, slide_ms)
        return self._add(node)._keep()

    # State

    def updateStateByKey(
        self,
        updateFunc: Callable[[list[Any], Any], Any],
        numPartitions: int | None = None,
        initialRDD: RDD[Any] | Iterable[Any] | None = None,
    ) -> DStream[Any]:
        """The state of every key: updateFunc(new values, state), each batch; None removes it."""
        from pyspark import RDD

        count = self._partitions(numPartitions)
        initial = initialRDD
        if initial is not None and not isinstance(initial, RDD):
            initial = self._sc.parallelize(list(initial))

        def update(before: RDD[Any] | None, new: RDD[Any]) -> RDD[Any]:
            if before is None:
                known = new.groupByKey(count).mapValues(lambda values: (list(values), None))
            else:
                both = before.cogroup(new.partitionBy(count), count)
                known = both.mapValues(lambda pair: (list(pair[1]), next(iter(pair[0]), None)))
            state = known.mapValues(lambda pair: updateFunc(pair[0], pair[1]))
            return state.filter(lambda pair: pair[1] is not None)

        return self._add(State(self._node, update, initial))._keep()

    # Outputs

    def foreachRDD(self, func: Callable[..., Any]) -> None:
        """func(rdd) or func(time, rdd) for each RDD; `ssc.batchId` names the batch."""
        self._output(_with_time_first(func), "foreachRDD")

    def pprint(self, num: int = 10) -> None:
        """Prints the first elements of each RDD."""
        self._output(printing(num), "pprint")

    def saveAsTextFiles(self, prefix: str, suffix: str | None = None) -> None:
        """Writes each RDD as text into the folder <prefix>-<milliseconds>.<suffix>, once."""
        self._output(text_files(prefix, suffix), "saveAsTextFiles")

    def toDF(self, schema: StructType | str | list[str] | None = None) -> DataFrameStream:
        """The stream as a DataFrame per batch, for code that is written on DataFrames."""
        from headwater.dstream.frames import DataFrameStream

        return DataFrameStream(self, schema)

    # Keeping

    def cache(self) -> DStream[T]:
        """Keeps the RDDs in memory."""
        from pyspark import StorageLevel

        return self.persist(StorageLevel.MEMORY_ONLY)

    def persist(self, storageLevel: StorageLevel) -> DStream[T]:
        """Keeps the RDDs at a storage level."""
        self.is_cached = True
        self._node.level = storageLevel
        return self

    def checkpoint(self, interval: float) -> DStream[T]:
        """Saves an RDD every interval seconds."""
        every_ms = round(interval * 1000)
        if every_ms <= 0 or every_ms % self._node.slide_ms:
            raise InvalidCheckpointInterval(interval, self._slideDuration)
        self.is_checkpointed = True
        self._node.save_every_ms = every_ms
        return self

    def slice(self, begin: datetime | float, end: datetime | float) -> list[RDD[Any]]:
        """The RDDs from begin to end, both included; times as datetime or as seconds since 1970."""
        return self._ssc._slice(self._node, _milliseconds(begin), _milliseconds(end))

    @property
    def _slideDuration(self) -> float:
        return self._node.slide_ms / 1000

    def _keep(self) -> DStream[T]:
        """Keeps RDDs that later batches need, in memory."""
        from pyspark import StorageLevel

        if self._node.level is None:
            self._node.level = StorageLevel.MEMORY_ONLY
        return self

    def _partitions(self, given: int | None) -> int:
        return self._sc.defaultParallelism if given is None else given

    def _add(self, node: Node) -> DStream[Any]:
        return DStream(self._ssc._program.add(node), self._ssc)

    def _each(self, function: Callable[[RDD[Any]], RDD[Any]]) -> DStream[Any]:
        program = self._ssc._program
        return self._add(
            Transformed(program, [self._node], lambda _, rdd: function(rdd), patient=False)
        )

    def _joined(self, how: str, other: DStream[Any], numPartitions: int | None) -> DStream[Any]:
        count = self._partitions(numPartitions)
        return self.transformWith(lambda a, b: getattr(a, how)(b, count), other)

    def _window(self, window_s: float, slide_s: float | None) -> tuple[int, int]:
        own_ms = self._node.slide_ms
        for what, seconds in (("windowDuration", window_s), ("slideDuration", slide_s)):
            if seconds is not None and (seconds <= 0 or round(seconds * 1000) % own_ms):
                raise InvalidWindow(what, seconds, self._slideDuration)
        return round(window_s * 1000), own_ms if slide_s is None else round(slide_s * 1000)

    def _output(self, function: Callable[[datetime, RDD[Any]], Any], kind: str) -> None:
        caller = sys._getframe(2)
        name = f"{kind} at {caller.f_code.co_filename}:{caller.f_lineno}"
        self._ssc._program.add_output(Output(self._node, function, name))


def _extended(values: list[Any], more: list[Any]) -> list[Any]:
    values.extend(more)
    return values


def _with_time(func: Callable[..., Any], *, rdds: int) -> Callable[..., Any]:
    """A function of RDDs as one of the time in milliseconds and RDDs."""
    timed = _with_time_first(func, rdds=rdds)
    return lambda time_ms, *given: timed(datetime.fromtimestamp(time_ms / 1000), *given)


def _with_time_first(func: Callable[..., Any], *, rdds: int = 1) -> Callable[..., Any]:
    """As Spark decides it: who takes only RDDs gets no time. An argument with a default counts."""
    count = sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in inspect.signature(func).parameters.values()
    )
    return (lambda _, *given: func(*given)) if count == rdds else func


def _milliseconds(time: datetime | float) -> int:
    seconds = time.timestamp() if isinstance(time, datetime) else time
    return int(seconds * 1000)
