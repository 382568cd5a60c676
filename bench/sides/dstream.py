"""One DStream program on one of the two APIs: how long its batches take, back to back."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
import types
import warnings
from operator import add, sub

warnings.simplefilter("ignore")
asked = json.loads(sys.argv[1])
if asked["api"] == "spark":
    from pyspark import SparkContext
    from pyspark.streaming import StreamingContext
else:
    from headwater.dstream import SparkContext, StreamingContext

sc = SparkContext("local[2]", "bench")
sc.setLogLevel("ERROR")
ssc = StreamingContext(sc, 0.05)
ssc.checkpoint(tempfile.mkdtemp())
line = "the quick brown fox jumps over the lazy dog"
rdd = sc.parallelize([line] * asked["rows"], 2).cache()
rdd.count()
queue = [rdd] * (asked["batches"] + 1) if asked["rows"] else [sc.parallelize([], 2)]
words = ssc.queueStream(queue).flatMap(str.split).map(lambda word: (word, 1))
if asked["kind"] == "windowed reduce":
    counts = words.reduceByKeyAndWindow(add, sub, 0.5, 0.05)
else:
    counts = words.reduceByKey(add)
# Spark pickles the function at every batch, which a lock would not survive: it is found by name.
sys.modules["noted"] = noted = types.ModuleType("noted")
noted.times, noted.last, noted.done = [], asked["batches"], threading.Event()


def note(found):
    import noted

    found.collect()
    noted.times.append(time.perf_counter())
    if len(noted.times) > noted.last:
        noted.done.set()


counts.foreachRDD(note)
ssc.start()
noted.done.wait(600)
print(json.dumps({"seconds": noted.times[noted.last] - noted.times[0]}))
sys.stdout.flush()
ssc.stop(True, False)
