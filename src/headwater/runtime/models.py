"""The versions of a model: what each holds, how it came about, and which one is used.

models/<model>/rows-<columns>     Delta: the rows of every version, told apart by `model_version`
models/<model>/objects/<version>  what is no DataFrame: pickled, or as Spark ML saves its models
models/<model>/taken/<version>    a number that a training has, from its beginning
models/<model>/versions/<version> how the version came about; written once
models/<model>/used               the version that is used, and whether somebody pinned it

A query takes the rows of one version: the used one when the batch is planned, written down beside
the checkpoint. Whatever replaces `used` is seen by the next batch.
"""

from __future__ import annotations

import datetime as dt
import json
import pickle
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from headwater.connectors.interface import struct_type
from headwater.definitions import MODEL_VERSION, Model
from headwater.errors import UnknownVersion
from headwater.jvm.asking import rows_per_batch
from headwater.jvm.classes import EXPRESSIONS, java_class
from headwater.ledger import transactions
from headwater.runtime.offsets import OffsetLog
from headwater.runtime.pinning import Pins
from headwater.runtime.storage import Files, Storage, last_number
from headwater.schemas import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

NONE = 0
"""The version of a model that was never trained; the first one is 1."""


@dataclass(frozen=True, slots=True)
class Version:
    """One training. `problem` says why it was not published."""

    version: int
    trained_at: str
    seconds: float
    columns: str
    rows: int | None = None
    score: float | None = None
    compared_with: int | None = None
    score_of_compared: float | None = None
    problem: str | None = None

    @property
    def is_published(self) -> bool:
        return self.problem is None

    @property
    def published_s(self) -> float:
        """When it was ready, in seconds since 1970."""
        return dt.datetime.fromisoformat(self.trained_at).timestamp() + self.seconds

    @property
    def holds_something(self) -> bool:
        return self.rows is not None


@dataclass(frozen=True, slots=True)
class Used:
    version: int = NONE
    is_pinned: bool = False


class ColumnsDoNotFit(Exception):
    """What a model function returned is not what was declared."""


class ModelStore:
    """The versions of one model. Reading what is known about them needs Spark only where the
    storage is not local."""

    def __init__(self, storage: Storage, model: Model, spark: SparkSession | None = None) -> None:
        self.model = model
        self._spark = spark
        self._storage = storage
        self._files = Files(storage, spark)
        self._place = storage.model(model.name)
        self._rows = f"{self._place}/rows-{zlib.crc32(model.columns.encode()):08x}"

    # What is known

    def versions(self) -> list[Version]:
        """Every training, oldest first."""
        names = [n for n in self._files.names(f"{self._place}/versions") if n.isdigit()]
        texts = [self._files.read(f"{self._place}/versions/{name}") for name in names]
        return sorted((Version(**json.loads(t)) for t in texts), key=lambda v: v.version)

    def used(self) -> Used:
        path = f"{self._place}/used"
        return Used(**json.loads(self._files.read(path))) if self._files.exists(path) else Used()

    def usable(self) -> list[Version]:
        """Versions that hold something in the columns that are declared now."""
        return [v for v in self.versions() if v.holds_something and v.columns == self.model.columns]

    def running(self) -> int:
        """The used version; `NONE` where its columns are no longer those that are declared."""
        record = self.in_use()
        return NONE if record is None else record.version

    def in_use(self) -> Version | None:
        """How the used version came about."""
        used = self.used().version
        path = f"{self._place}/versions/{used}"
        if used == NONE or not self._files.exists(path):
            return None
        record = Version(**json.loads(self._files.read(path)))
        return record if record.columns == self.model.columns else None

    # Choosing

    def publish(self, version: int) -> bool:
        """Makes a version the used one, unless another is pinned; whether it is used."""
        if self.used().is_pinned:
            return False
        self._use(Used(version))
        return True

    def pin(self, version: int) -> None:
        """Uses a version until it is unpinned, whatever is published meanwhile."""
        self._require(version)
        self._use(Used(version, is_pinned=True))

    def unpin(self) -> int:
        """Uses the newest published version again; which one that is."""
        published = [v.version for v in self.usable() if v.is_published]
        self._use(Used(max(published, default=NONE)))
        return self.used().version

    def rollback(self) -> int:
        """Pins the version that was published before the used one; which one that is."""
        used = self.used().version
        before = [v.version for v in self.usable() if v.is_published and v.version < used]
        if not before:
            problem = f"no version was published before {used}"
            raise UnknownVersion(self.model.name, problem, [v.version for v in self.usable()])
        self._use(Used(max(before), is_pinned=True))
        return max(before)

    def _use(self, used: Used) -> None:
        self._files.write(f"{self._place}/used", json.dumps(asdict(used)))

    def _require(self, version: int) -> None:
        usable = {v.version for v in self.usable()}
        if version in usable:
            return
        known = {v.version: v for v in self.versions()}
        problem = f"there is no version {version}"
        if version in known:
            kept = known[version].holds_something
            problem = f"version {version} " + ("has other columns" if kept else "holds nothing")
        raise UnknownVersion(self.model.name, problem, usable)

    # Reading

    def frame(self, log: OffsetLog) -> DataFrame:
        """The rows for a query: those of the version with which its batch was planned."""
        self._prepare()
        pins = Pins(self._files, f"{log.checkpoint}/headwater/models/{self.model.name}")

        def accepted(accept: Callable[[int], object]) -> int:
            def newest() -> int:
                version = self.running()
                accept(version)
                return version

            return pins.version(log, newest)

        frame = rows_per_batch(
            self.session, self._rows, MODEL_VERSION, lambda: pins.version(log, self.running)
        )
        _readings[frame] = Reading(self, accepted)
        return frame

    def now(self) -> DataFrame:
        """The rows of the used version; none before the first. Writes nothing."""
        return self.at(self.running())

    def at(self, version: int) -> DataFrame:
        from pyspark.sql import functions as F

        if version == NONE or not self._files.exists(self._rows):
            frame = self.session.createDataFrame([], self._columns())
        else:
            frame = self._at(F.lit(version))
        _readings[frame] = Reading(self, lambda accept: version, is_fixed=True)
        return frame

    def content(self, version: int) -> Any:
        """What the function returned: the rows as a DataFrame, the Spark ML model, or the
        object."""
        if self.model.schema is not None:
            return self.at(version)
        row = self.at(version).first()
        assert row is not None
        if not self._files.exists(f"{row['path']}/metadata"):
            return loaded(row["path"])
        from pyspark.ml.util import DefaultParamsReader

        return DefaultParamsReader.loadParamsInstance(row["path"], self.session)

    def _at(self, version: Column) -> DataFrame:
        from pyspark.sql import functions as F

        rows = self.session.read.format("delta").load(self._rows)
        return rows.where(F.col(MODEL_VERSION) == version)

    def _prepare(self) -> None:
        """A query reads the table from its first batch on, so it must be there."""
        if not self._files.exists(f"{self._rows}/_delta_log"):
            empty = self.session.createDataFrame([], self._columns())
            empty.write.format("delta").mode("ignore").save(self._rows)

    def _columns(self) -> StructType:
        return struct_type(self.model.columns).add(MODEL_VERSION, "long")

    @property
    def session(self) -> SparkSession:
        assert self._spark is not None
        return self._spark

    # Writing

    def next_version(self) -> int:
        """A number that nobody else gets: two trainings may go on at once, and what a crash has
        left of one keeps its number."""
        taken = f"{self._place}/taken"
        folders = (taken, f"{self._place}/versions")
        version = max(last_number(self._files, folder) or NONE for folder in folders) + 1
        while not self._files.create(f"{taken}/{version}", ""):
            version += 1
        return version

    def write(self, version: int, content: Any) -> int:
        """Keeps what a model function returned, unpublished; how many rows that is."""
        from pyspark.sql import functions as F

        if self.model.schema is None and not hasattr(content, "isStreaming"):
            content = self._object_row(version, content)
        rows = self._fitting(content).withColumn(MODEL_VERSION, F.lit(version).cast("long"))
        application = f"model/{self.model.name}/{version}"
        return transactions.append(rows, self._rows, application=application, version=version)

    def publish_rows(self, rows: DataFrame) -> int:
        """Rows from elsewhere as a version of their own, used at once; which one."""
        version = self.next_version()
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        written = self.write(version, rows)
        self.record(Version(version, now, 0.0, self.model.columns, written))
        self._use(Used(version))
        return version

    def record(self, version: Version) -> None:
        path = f"{self._place}/versions/{version.version}"
        self._files.write(path, json.dumps(asdict(version)))

    def _object_row(self, version: int, content: Any) -> DataFrame:
        path = f"{self._place}/objects/{version}"
        if self._storage.is_local:
            path = str(Path(path).absolute())
        if _is_spark_ml(content):
            content.write().overwrite().save(path)
        else:
            self._pickle(content, path)
        return self.session.createDataFrame([(path,)], self.model.columns)

    def _pickle(self, content: Any, path: str) -> None:
        from pyspark import cloudpickle

        if not self._storage.is_local:
            raise ColumnsDoNotFit("an object needs a storage that is a folder: return rows instead")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(cloudpickle.dumps(content))  # type: ignore[no-untyped-call]  # not typed

    def _fitting(self, frame: DataFrame) -> DataFrame:
        declared = struct_type(self.model.columns)
        if set(frame.columns) != set(declared.names):
            found, wanted = ", ".join(frame.columns), ", ".join(declared.names)
            raise ColumnsDoNotFit(f"it returned the columns {found}; declared are {wanted}")
        return widened(frame, declared)


def widened(frame: DataFrame, declared: StructType) -> DataFrame:
    """The declared columns in their order; a narrower type is widened."""
    spark = frame.sparkSession
    frame = frame.select(*map(quoted, declared.names))
    wanted_types = spark.createDataFrame([], declared)._jdf.schema()
    cast = java_class(spark, EXPRESSIONS + "Cast")
    for position, name in enumerate(declared.names):
        found = frame._jdf.schema().apply(position).dataType()
        wanted = wanted_types.apply(position).dataType()
        if not cast.canUpCast(found, wanted):
            kinds = f"{found.catalogString()}; declared is {wanted.catalogString()}"
            raise ColumnsDoNotFit(f"column {name} is a {kinds}")
    return frame.to(declared)


@dataclass(frozen=True, slots=True)
class Reading:
    """Which version a frame of a model has; `is_fixed` where that never changes.

    `version` gives the one for the batch that is planned. One that no batch of the query has taken
    yet is given to `accept` first, which raises where it is of no use.
    """

    store: ModelStore
    version: Callable[[Callable[[int], object]], int]
    is_fixed: bool = False


_readings: WeakKeyDictionary[DataFrame, Reading] = WeakKeyDictionary()


def reading_of(frame: DataFrame) -> Reading | None:
    """None where the frame is not as a model gave it."""
    return _readings.get(frame)


def _is_spark_ml(content: Any) -> bool:
    from pyspark.ml import Transformer
    from pyspark.ml.util import MLWritable

    return isinstance(content, Transformer) and isinstance(content, MLWritable)


_objects: dict[str, Any] = {}


def loaded(path: str) -> Any:
    """The object of a model's version, read once per process: for Python functions on rows."""
    if path not in _objects:
        _objects.clear()
        _objects[path] = pickle.loads(Path(path).read_bytes())
    return _objects[path]
