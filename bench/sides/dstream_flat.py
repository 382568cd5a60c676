"""A DStream program with state that notes each of its batches, until somebody kills it."""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from operator import add, sub
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

from measuring import driver_memory_mb  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from headwater.dstream import SparkContext, StreamingContext  # noqa: E402

asked = json.loads(sys.argv[1])
FOLDER = Path.cwd()
KEYS = 1_000
INTERVAL_S = 0.05
WINDOW_S = 1.0


def created() -> StreamingContext:
    context = StreamingContext(SparkContext("local[2]", "flat"), INTERVAL_S)
    context.checkpoint(str(FOLDER / "checkpoint"))
    pairs = context.textFileStream(str(FOLDER / "in")).map(lambda word: (word, 1))
    if asked["kind"] == "state":
        counts = pairs.updateStateByKey(lambda new, old: (old or 0) + sum(new))
    else:
        counts = pairs.reduceByKeyAndWindow(add, sub, WINDOW_S, INTERVAL_S)
    # Every tenth batch, as it is by itself with batches of a second.
    counts.checkpoint(10 * INTERVAL_S)
    counts.foreachRDD(note)
    return context


def note(found: Any) -> None:
    keys = found.count()
    with (FOLDER / "batches").open("a") as batches:
        line: dict[str, float] = {"at": time.time(), "keys": keys}
        noted = int((FOLDER / "noted").read_text()) if (FOLDER / "noted").exists() else 0
        if noted % asked["every"] == 0:
            line["memory_mb"] = driver_memory_mb(SparkSession.builder.getOrCreate())
        batches.write(json.dumps(line) + "\n")
    (FOLDER / "noting").write_text(str(noted + 1))
    (FOLDER / "noting").rename(FOLDER / "noted")


def feed() -> None:
    """A file with every key, again and again."""
    inbox = FOLDER / "in"
    while True:
        draft = FOLDER / "draft"
        draft.write_text("\n".join(f"key{number}" for number in range(KEYS)) + "\n")
        draft.rename(inbox / f"{time.time_ns()}.txt")
        time.sleep(1)


(FOLDER / "in").mkdir(exist_ok=True)
context = StreamingContext.getOrCreate(str(FOLDER / "checkpoint"), created)
context.start()
threading.Thread(target=feed, daemon=True).start()
context.awaitTermination()
