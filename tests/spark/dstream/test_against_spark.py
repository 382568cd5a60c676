"""Every operator, and random chains of operators, give what Spark's own DStreams give.

What Spark gives is kept in `judged.txt`, since asking it takes minutes; `-m matrix` asks it again.
After a change of the programs below, remove the file and run that: it writes it anew.
"""

from __future__ import annotations

import ast
import pprint
import random
from collections.abc import Callable
from operator import add, sub
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import StorageLevel

# A program of some fifty streams, in the set-up of the first test.

JUDGED = Path(__file__).with_name("judged.txt")

WORDS = [
    [("a", 1), ("b", 2), ("a", 3), ("c", 1)],
    [("b", 5), ("b", 1)],
    [],
    [("a", 2), ("d", 7)],
    [("d", 1), ("e", 2), ("a", 9), ("b", 3)],
    [("a", 4), ("b", 4)],
]
OTHER = [
    [("a", "x"), ("c", "y")],
    [],
    [("a", "z")],
    [("d", "u"), ("a", "v"), ("q", "w")],
    [("e", "n"), ("e", "o")],
    [("a", "p"), ("b", "q")],
]


def summed(new: list[int], state: int | None) -> int | None:
    """A running total that forgets a key when it passes 12."""
    total = (state or 0) + sum(new)
    return None if total > 12 else total


OPERATORS: dict[str, Callable[[SimpleNamespace], Any]] = {
    "map": lambda s: s.numbers,
    "flatMap": lambda s: s.words.flatMap(lambda pair: [pair[0]] * pair[1]),
    "filter": lambda s: s.words.filter(lambda pair: pair[1] > 2),
    "mapPartitions": lambda s: s.words.mapPartitions(lambda pairs: [sum(n for _, n in pairs)]),
    "mapPartitionsWithIndex": lambda s: s.words.mapPartitionsWithIndex(
        lambda index, pairs: [(index, sorted(pairs))]
    ),
    "mapValues": lambda s: s.words.mapValues(lambda n: n * 10),
    "flatMapValues": lambda s: s.words.flatMapValues(range),
    "glom": lambda s: s.words.glom(),
    "reduce": lambda s: s.numbers.reduce(max),
    "count": lambda s: s.words.count(),
    "countByValue": lambda s: s.words.map(lambda pair: pair[0]).countByValue(),
    "reduceByKey": lambda s: s.words.reduceByKey(add),
    "combineByKey": lambda s: s.words.combineByKey(lambda n: [n], lambda ns, n: [*ns, n], add, 3),
    "groupByKey": lambda s: s.words.groupByKey(),
    "partitionBy": lambda s: s.words.partitionBy(3).glom(),
    "repartition": lambda s: s.words.repartition(1).glom(),
    "transform": lambda s: s.words.transform(lambda rdd: rdd.sortByKey()),
    "transform with time": lambda s: s.words.transform(
        lambda when, rdd: rdd.map(lambda pair: (when.second, pair))
    ),
    "order": lambda s: s.words.transform(lambda rdd: rdd.sortByKey(False).zipWithIndex()),
    "transformWith and time": lambda s: s.words.transformWith(
        lambda when, a, b: a.union(b).map(lambda pair: (when.second, pair)), s.other
    ),
    "transformWith": lambda s: s.words.transformWith(
        lambda a, b: a.keys().union(b.keys()), s.other
    ),
    "context transform": lambda s: s.ssc.transform(
        [s.words, s.other], lambda rdds: rdds[0].cogroup(rdds[1])
    ),
    "context union": lambda s: s.ssc.union(s.words.map(tuple), s.other.map(tuple)),
    "union": lambda s: s.words.union(s.other),
    "cogroup": lambda s: s.words.cogroup(s.other),
    "join": lambda s: s.words.join(s.other),
    "leftOuterJoin": lambda s: s.words.leftOuterJoin(s.other),
    "rightOuterJoin": lambda s: s.words.rightOuterJoin(s.other),
    "fullOuterJoin": lambda s: s.words.fullOuterJoin(s.other),
    "window": lambda s: s.words.window(3),
    "window with slide": lambda s: s.words.window(4, 2),
    "window of a window": lambda s: s.words.window(2, 2).window(4, 2).count(),
    "countByWindow": lambda s: s.words.countByWindow(5, 1),
    "countByValueAndWindow": lambda s: s.words.map(lambda pair: pair[0]).countByValueAndWindow(
        5, 1
    ),
    "reduceByWindow": lambda s: s.numbers.reduceByWindow(max, None, 3, 1),
    "reduceByWindow with inverse": lambda s: s.numbers.reduceByWindow(add, sub, 5, 1),
    "groupByKeyAndWindow": lambda s: s.words.groupByKeyAndWindow(5, 1),
    "reduceByKeyAndWindow": lambda s: s.words.reduceByKeyAndWindow(add, None, 3, 1),
    "reduceByKeyAndWindow with inverse": lambda s: s.words.reduceByKeyAndWindow(add, sub, 5, 1),
    "inverse of a short window": lambda s: s.words.reduceByKeyAndWindow(add, sub, 4, 2),
    "inverse with filter": lambda s: s.words.reduceByKeyAndWindow(
        add, sub, 5, 1, filterFunc=lambda pair: pair[1] > 0
    ),
    "updateStateByKey": lambda s: s.words.updateStateByKey(summed),
    "updateStateByKey from initial state": lambda s: s.words.updateStateByKey(
        summed, initialRDD=s.initial
    ),
    "state of a window": lambda s: s.words.window(2).updateStateByKey(summed),
    "queue, all at once": lambda s: s.ssc.queueStream([[1, 2], [3]], oneAtATime=False, default=[9]),
    "queue, then the default": lambda s: s.ssc.queueStream([[1, 2], [3]], default=[9]),
    "persist": lambda s: s.words.persist(StorageLevel.DISK_ONLY).mapValues(str),
    "cache": lambda s: s.words.mapValues(lambda n: n + 1).cache().reduceByKey(add),
    "checkpoint": lambda s: s.words.mapValues(lambda n: -n).checkpoint(2).reduceByKey(add),
}

STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "mapValues": lambda s, o: s.mapValues(lambda n: n + 1),
    "filter": lambda s, o: s.filter(lambda pair: pair[1] % 3),
    "flatMapValues": lambda s, o: s.flatMapValues(lambda n: [n, n % 4]),
    "reduceByKey": lambda s, o: s.reduceByKey(add),
    "repartition": lambda s, o: s.repartition(3),
    "union": lambda s, o: s.union(o) if s._slideDuration == o._slideDuration else s,
    "join": lambda s, o: s.join(o).mapValues(sum) if s._slideDuration == o._slideDuration else s,
    "window": lambda s, o: s.window(3 * s._slideDuration),
    "sliding window": lambda s, o: s.window(2, 2) if s._slideDuration == 1 else s,
    "reduced window": lambda s, o: s.reduceByKeyAndWindow(
        add, sub, 5 * s._slideDuration, s._slideDuration
    ),
    "state": lambda s, o: s.updateStateByKey(summed),
    "sorted": lambda s, o: s.transform(lambda rdd: rdd.sortByKey()),
}


def chain(seed: int) -> str:
    return " > ".join(random.Random(seed).choices(sorted(STEPS), k=4))


CHAINS = [chain(seed) for seed in range(6)]


def program(ssc: Any, words: Any, other: Any) -> dict[str, Any]:
    """All streams in one context: to start one costs more than its batches."""
    streams = SimpleNamespace(
        ssc=ssc,
        words=words,
        other=other,
        numbers=words.map(lambda pair: pair[1]),
        initial=ssc.sparkContext.parallelize([("a", 5), ("z", 1)]),
    )
    ssc.remember(20)
    words.map(lambda pair: pair[0] * pair[1]).pprint(2)
    made = {name: make(streams) for name, make in OPERATORS.items()}
    codes = other.mapValues(ord)
    for steps in CHAINS:
        made[steps] = words
        for step in steps.split(" > "):
            made[steps] = STEPS[step](made[steps], codes)
    return made


@pytest.fixture(scope="module")
def results(given: Callable[..., Any]) -> tuple[Any, Any]:
    return ast.literal_eval(JUDGED.read_text()), given(program, WORDS, OTHER)


@pytest.mark.matrix
def test_spark_still_judges_as_is_kept(judged: Callable[..., Any]) -> None:
    found = judged(program, WORDS, OTHER)
    if not JUDGED.exists():
        JUDGED.write_text(pprint.pformat(found, width=100) + "\n")
    assert ast.literal_eval(JUDGED.read_text()) == found


@pytest.mark.parametrize("name", [*OPERATORS, *CHAINS, "pprint", "slice"])
def test_each_batch_is_what_spark_gives(name: str, results: tuple[Any, Any]) -> None:
    expected, found = results
    assert expected[name]
    assert found[name] == expected[name]


def test_a_wrong_operator_would_be_seen(results: tuple[Any, Any]) -> None:
    expected, found = results
    assert found["window"] != expected["window with slide"]
    assert found["updateStateByKey"] != expected["state of a window"]
    # A filter that is not heeded, and an inverse that is never called.
    assert found["inverse with filter"] != expected["reduceByKeyAndWindow with inverse"]
    assert found["reduceByWindow with inverse"][6] != [sum(n for part in WORDS for _, n in part)]
    assert len(found["countByValueAndWindow"][6]) < 5
