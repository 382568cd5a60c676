"""One DStream program on one of the two APIs: how long its batches take.

From a queue they follow each other without a pause. A file is one batch.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
import types
import warnings
from operator import add, sub
from pathlib import Path

warnings.simplefilter("ignore")
asked = json.loads(sys.argv[1])
if asked["api"] == "spark":
    from pyspark import SparkContext
    from pyspark.streaming import StreamingContext
else:
    from headwater.dstream import SparkContext, StreamingContext

LINE = "the quick brown fox jumps over the lazy dog"
sc = SparkContext("local[2]", "bench")
sc.setLogLevel("ERROR")
from_file = asked["input"] == "file"
interval_s = 0.5 if from_file else 0.05
ssc = StreamingContext(sc, interval_s)
ssc.checkpoint(tempfile.mkdtemp())
if from_file:
    inbox = Path(tempfile.mkdtemp())
    lines = ssc.textFileStream(str(inbox))
else:
    rdd = sc.parallelize([LINE] * asked["rows"], 2).cache()
    rdd.count()
    queue = [rdd] * (asked["batches"] + 1) if asked["rows"] else [sc.parallelize([], 2)]
    lines = ssc.queueStream(queue)
words = lines.flatMap(str.split).map(lambda word: (word, 1))
if asked["kind"] == "windowed reduce":
    counts = words.reduceByKeyAndWindow(add, sub, 10 * interval_s, interval_s)
else:
    counts = words.reduceByKey(add)
# Spark pickles the function at every batch, which a lock would not survive: it is found by name.
sys.modules["noted"] = noted = types.ModuleType("noted")
noted.times, noted.words = [], []
noted.done, noted.last = threading.Event(), asked["batches"]


def note(found):
    import noted

    noted.words.append(sum(count for _, count in found.collect()))
    noted.times.append(time.perf_counter())
    if len(noted.times) > noted.last:
        noted.done.set()


def drop_file():
    """Moves the file in, once batches run; returns when."""
    draft = inbox.with_name(f"{inbox.name}.txt")
    draft.write_text((LINE + "\n") * asked["rows"])
    assert noted.done.wait(300)
    began = time.perf_counter()
    draft.touch()
    draft.rename(inbox / draft.name)
    return began


counts.foreachRDD(note)
ssc.start()
if from_file:
    began = drop_file()
    expected = asked["rows"] * len(LINE.split())
    until = time.monotonic() + 300
    while expected not in noted.words and time.monotonic() < until:
        time.sleep(0.02)
    seconds = noted.times[noted.words.index(expected)] - began
else:
    noted.done.wait(600)
    seconds = noted.times[noted.last] - noted.times[0]
print(json.dumps({"seconds": seconds}))
sys.stdout.flush()
ssc.stop(True, False)
