"""What a program does with its streams, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headwater.dstream.nodes import Node

if TYPE_CHECKING:
    from pyspark import RDD

OutputFunction = Callable[[datetime, "RDD[Any]"], Any]


@dataclass(frozen=True, slots=True)
class Output:
    """A function of every RDD of a stream, and the place in the program that asked for it."""

    node: Node
    function: OutputFunction
    name: str


def printing(count: int) -> OutputFunction:
    """Prints the first elements of every RDD."""

    def take_and_print(time: datetime, rdd: RDD[Any]) -> None:
        line = "-" * 43
        first = rdd.take(count + 1)
        print(f"{line}\nTime: {time}\n{line}")
        for element in first[:count]:
            print(element)
        if len(first) > count:
            print("...")
        print("", flush=True)

    return take_and_print


def text_files(prefix: str, suffix: str | None) -> OutputFunction:
    """One folder of text per batch. A folder that a crash left half-written is written anew."""

    def save(time: datetime, rdd: RDD[Any]) -> None:
        milliseconds = round(time.timestamp() * 1000)
        path = f"{prefix}-{milliseconds}" + (f".{suffix}" if suffix is not None else "")
        java: Any = rdd.context._jvm
        folder = java.org.apache.hadoop.fs.Path(path)
        files = folder.getFileSystem(rdd.context._jsc.hadoopConfiguration())
        if files.exists(java.org.apache.hadoop.fs.Path(folder, "_SUCCESS")):
            return
        files.delete(folder, True)
        rdd.saveAsTextFile(path)

    return save
