"""Inputs that Structured Streaming reads: each is one of its sources, with its offsets.

An input gives an unbounded frame for the query, and for a batch of the past a bounded frame between
two offsets. Both become the same RDD, made in the JVM without a pass through rows of Python.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headwater.dstream.nodes import Node, Timeline
from headwater.jvm.classes import java_class
from headwater.runtime.storage import Files

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession


BatchFrame = Callable[[], "DataFrame"]
"""Makes the rows of a batch: it costs time, and not every input needs them."""


class Input(Node):
    """A source of the program's query."""

    log: SourceLog
    """Given by the engine before the first batch."""

    def __init__(self, timeline: Timeline, slide_ms: int) -> None:
        super().__init__(timeline, slide_ms, [])

    def compute(self, time_ms: int) -> RDD[Any] | None:
        return self.timeline.input_rdd(self, time_ms)

    @abstractmethod
    def stream(self, spark: SparkSession) -> DataFrame:
        """The unbounded frame."""

    @abstractmethod
    def part(self, spark: SparkSession, start: str | None, end: str) -> DataFrame:
        """The rows between two offsets of this source."""

    @abstractmethod
    def to_rdd(self, frame: BatchFrame, start: str | None, end: str) -> RDD[Any]:
        """The rows of a batch, which lie between two offsets, as a program knows them."""

    def no_rows(self, end: str | None) -> RDD[Any]:
        """The RDD of a batch for which nothing has come."""
        return self.timeline.spark_context.emptyRDD()

    def records(self, start: str | None, end: str) -> int:
        """How many records lie between two offsets, where offsets tell."""
        return 0

    def tidy(self, until: str) -> None:
        """Called with an offset up to which no batch will ask again."""


_FEW = 5


class SourceLog:
    """What a source has noted about its offsets."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder

    def initial(self) -> str:
        """The offset at which a Kafka source began, as its JSON."""
        return self._files.read(f"{self._folder}/0").split("\n", 1)[1]

    def paths(self, start: str | None, end: str) -> list[str]:
        """The files between two offsets."""
        after = -1 if start is None else int(json.loads(start)["logOffset"])
        last = int(json.loads(end)["logOffset"])
        wanted = range(after + 1, last + 1)
        # To ask for many one by one would take longer than to list them.
        listed = self._listed() if len(wanted) > _FEW else None
        # Every tenth file of the log holds those before it as well: each is read once.
        entries = {
            (entry["batchId"], entry["path"])
            for name in {self._file_of(number, listed) for number in wanted} - {None}
            for entry in self._entries(f"{self._folder}/{name}")
            if entry["batchId"] in wanted
        }
        return [path for _, path in sorted(entries)]

    def _file_of(self, number: int, listed: tuple[set[int], list[int]] | None) -> str | None:
        """The file that has the entries of an offset; one of its own is gone after a while."""
        if listed is None and self._files.exists(f"{self._folder}/{number}"):
            return str(number)
        own, whole = listed or self._listed()
        if number in own:
            return str(number)
        at = bisect_left(whole, number)
        return f"{whole[at]}.compact" if at < len(whole) else None

    def _listed(self) -> tuple[set[int], list[int]]:
        """The offsets with a file of their own, and those whose file has the ones before, too."""
        names = self._files.names(self._folder)
        whole = [name.removesuffix(".compact") for name in names if name.endswith(".compact")]
        return {int(name) for name in names if name.isdigit()}, sorted(map(int, whole))

    def _entries(self, path: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._files.read(path).splitlines()[1:]]


class FileInput(Input):
    """New files in a folder; those that were there before the program began do not count."""

    _format: str

    def __init__(
        self, timeline: Timeline, slide_ms: int, folder: str, *, newer_than_ms: int | None
    ) -> None:
        super().__init__(timeline, slide_ms)
        self.folder = folder
        self.newer_than_ms = newer_than_ms

    def stream(self, spark: SparkSession) -> DataFrame:
        self._make_folder(spark)
        return self._columns(self._new(self._reader(spark.readStream).load(self.folder)))

    def _make_folder(self, spark: SparkSession) -> None:
        """A program may start before its folder is there; a pattern stands for any."""
        if not any(sign in self.folder for sign in "*?[{"):
            path = java_class(spark, "org.apache.hadoop.fs.Path")(self.folder)
            java: Any = spark.sparkContext._jsc
            path.getFileSystem(java.hadoopConfiguration()).mkdirs(path)

    def part(self, spark: SparkSession, start: str | None, end: str) -> DataFrame:
        return self._columns(self._new(self._reader(spark.read).load(self.log.paths(start, end))))

    def _reader(self, reader: Any) -> Any:
        return reader.format(self._format)

    def _new(self, frame: DataFrame) -> DataFrame:
        if self.newer_than_ms is None:
            return frame
        from pyspark.sql import functions as F

        changed = F.unix_millis(F.col("_metadata.file_modification_time"))
        return frame.where(changed > self.newer_than_ms)

    def _columns(self, frame: DataFrame) -> DataFrame:
        return frame.select("value")


class TextFiles(FileInput):
    """Lines of new text files."""

    _format = "text"

    def to_rdd(self, frame: BatchFrame, start: str | None, end: str) -> RDD[Any]:
        return rdd_of_text(frame())


class BinaryRecords(FileInput):
    """Records of one length in new files."""

    _format = "binaryFile"

    def __init__(
        self,
        timeline: Timeline,
        slide_ms: int,
        folder: str,
        length: int,
        *,
        newer_than_ms: int | None,
    ) -> None:
        super().__init__(timeline, slide_ms, folder, newer_than_ms=newer_than_ms)
        self._length = length

    def _reader(self, reader: Any) -> Any:
        columns = "path string, modificationTime timestamp, length bigint, content binary"
        return reader.format(self._format).schema(columns)

    def _columns(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        size = self._length
        whole = F.col("length") % size == 0
        problem = F.concat(F.col("path"), F.lit(f" is no multiple of {size} bytes long"))
        starts = F.when(
            whole & (F.col("length") > 0),
            F.sequence(F.lit(1), F.col("length").cast("int"), F.lit(size)),
        ).when(~whole, F.raise_error(problem).cast("array<int>"))
        return frame.select("content", F.explode(starts).alias("start")).select(
            F.substring("content", F.col("start"), F.lit(size)).alias("value")
        )

    def to_rdd(self, frame: BatchFrame, start: str | None, end: str) -> RDD[Any]:
        return rdd_of_bytes(frame())


def rdd_of_text(frame: DataFrame) -> RDD[Any]:
    """A frame of one text column as an RDD of strings."""
    from pyspark import RDD
    from pyspark.serializers import UTF8Deserializer

    texts: Any = UTF8Deserializer
    return RDD(_typed(frame, "STRING"), frame.sparkSession.sparkContext, texts())


def rdd_of_bytes(frame: DataFrame) -> RDD[Any]:
    """A frame of one binary column as an RDD of bytes."""
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    return RDD(_typed(frame, "BINARY"), frame.sparkSession.sparkContext, NoOpSerializer())


def rdd_of_pairs(frame: DataFrame) -> RDD[Any]:
    """A frame of two binary columns as an RDD of pairs of bytes, or None where a value is null."""
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer, PairDeserializer

    spark = frame.sparkSession
    encoders = java_class(spark, "org.apache.spark.sql.Encoders")
    encoder = encoders.tuple(encoders.BINARY(), encoders.BINARY())
    java = getattr(frame._jdf, "as")(encoder).toJavaRDD()
    pairs: Any = PairDeserializer
    return RDD(java, spark.sparkContext, pairs(NoOpSerializer(), NoOpSerializer()))


def _typed(frame: DataFrame, encoder: str) -> Any:
    encoders = java_class(frame.sparkSession, "org.apache.spark.sql.Encoders")
    return getattr(frame._jdf, "as")(getattr(encoders, encoder)()).toJavaRDD()


def union_of(spark: SparkSession, inputs: Sequence[Input]) -> DataFrame:
    """One query over all inputs, and over a source that has a row whenever it is asked: so that an
    interval without data is a batch too. Nobody reads the union's rows: a batch takes each input's
    own rows from below its branch.
    """
    from pyspark.sql import functions as F

    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
    frames = [ticks.option("numPartitions", 1).load(), *(one.stream(spark) for one in inputs)]
    branches = [frame.select(F.lit(0).alias("branch")) for frame in frames]
    whole = branches[0]
    for branch in branches[1:]:
        whole = whole.unionAll(branch)
    return whole


def branch_of(spark: SparkSession, execution: Any, position: int) -> DataFrame:
    """The rows of the input at a position, in the batch that a query is running."""
    from pyspark.sql import DataFrame

    write = execution.lastExecution().logical()
    branch = write.children().apply(0).children().apply(position + 1)
    below = branch.children().apply(0)
    datasets = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(datasets.ofRows(spark._jsparkSession, below), spark)
