"""Where a pipeline keeps what must outlive it.

<storage>/<pipeline>/tables/<table>         managed Delta tables, late and rejected rows
<storage>/<pipeline>/checkpoints/<table>    offsets, commits and state of one query
<storage>/<pipeline>/batches/<table>        a mark: a batch run wrote the table last
<storage>/<pipeline>/lookups/<lookup>       versions of a lookup that is reloaded
<storage>/<pipeline>/models/<model>         versions of a model, and which of them is used
<storage>/<pipeline>/lateness/<source>.json how far rows were behind the newest
<storage>/<pipeline>/replays/<table>        copies of log entries while a batch is read again
<storage>/<pipeline>/rebuild                a table while it is made anew
<storage>/<pipeline>/savepoints/<name>      copies of checkpoints, and where the sinks were then
<storage>/<pipeline>/restoring.json         a savepoint that is being put back
<storage>/<pipeline>/lease/<number>         which driver may write
<storage>/<pipeline>/aside/<table>-<time>   what `run --fresh` moved out of the way
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.connectors.far_paths import FarPath
from headwater.errors import StorageUnwritable
from headwater.jvm.classes import module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


@dataclass(frozen=True, slots=True)
class Storage:
    """Paths of one pipeline, on the local file system or any other that Hadoop knows."""

    root: str
    pipeline: str

    @property
    def is_local(self) -> bool:
        return "://" not in self.root

    @property
    def home(self) -> str:
        return f"{self.root}/{self.pipeline}"

    def table(self, name: str) -> str:
        return f"{self.home}/tables/{name}"

    def checkpoint(self, table: str) -> str:
        return f"{self.home}/checkpoints/{table}"

    def lateness(self, source: str) -> str:
        """How late the rows of a source were."""
        return f"{self.home}/lateness/{source}.json"

    def lookup(self, name: str) -> str:
        """The versions of a lookup that is read anew while the pipeline runs."""
        return f"{self.home}/lookups/{name}"

    def model(self, name: str) -> str:
        """The versions of a model."""
        return f"{self.home}/models/{name}"

    def replays(self, table: str) -> str:
        return f"{self.home}/replays/{table}"

    def shape(self, table: str) -> str:
        """What of a query its checkpoint depends on."""
        return f"{self.checkpoint(table)}/headwater/shape"

    def savepoint(self, name: str) -> str:
        return f"{self.home}/savepoints/{name}"

    @property
    def restoring(self) -> str:
        """There while a savepoint is put back: which one, and the tables that are done."""
        return f"{self.home}/restoring.json"

    @property
    def lease(self) -> str:
        """Which driver may write."""
        return f"{self.home}/lease"

    def batch_mark(self, table: str) -> str:
        """A file that says: a batch run wrote this table last, so no checkpoint fits its rows."""
        return f"{self.home}/batches/{table}"

    def aside(self, table: str, what: str, now: dt.datetime) -> str:
        return f"{self.home}/aside/{table}-{now:%Y%m%dT%H%M%S%f}/{what}"


class Files:
    """The few file operations that the runtime needs, on whatever holds the storage."""

    def __init__(self, storage: Storage, spark: SparkSession | None = None) -> None:
        self._storage = storage
        self._spark = spark

    def exists(self, path: str) -> bool:
        if self._storage.is_local:
            return os.path.exists(path)
        return self._far(path).exists()

    def names(self, path: str) -> list[str]:
        """Names in a folder; none where the folder is missing."""
        if not self.exists(path):
            return []
        if self._storage.is_local:
            return os.listdir(path)
        return [one.name for one in self._far(path).iterdir()]

    def size(self, path: str) -> int:
        """The bytes of a file, or of all files of a folder; 0 where there is none."""
        if not self.exists(path):
            return 0
        if self._storage.is_local:
            found = Path(path)
            every = found.rglob("*") if found.is_dir() else [found]
            return sum(file.stat().st_size for file in every if file.is_file())
        return int(self._hadoop(path).getContentSummary(self._path(path)).getLength())

    def read(self, path: str) -> str:
        if self._storage.is_local:
            return Path(path).read_text()
        return self._far(path).read_text()

    def write(self, path: str, text: str) -> None:
        """Replaces a small file as a whole: a reader sees the old or the new text."""
        if self._storage.is_local:
            beside = Path(f"{path}.new")
            with _writing(path):
                beside.parent.mkdir(parents=True, exist_ok=True)
                beside.write_text(text)
                beside.replace(path)
            return
        # As Spark writes its checkpoints: beside its place, then renamed, or as the storage can.
        assert self._spark is not None
        settings = self._spark._jsparkSession.sessionState().newHadoopConf()
        self._hadoop(path).mkdirs(self._path(path).getParent())
        manager = module(self._spark, _CHECKPOINT_FILES).create(self._path(path), settings)
        stream = manager.createAtomic(self._path(path), True)
        stream.write(text.encode())
        stream.close()

    def create(self, path: str, text: str) -> bool:
        """Writes a file that nobody has written; False where somebody has."""
        if self._storage.is_local:
            try:
                with _writing(path):
                    Path(path).parent.mkdir(parents=True, exist_ok=True)
                    with open(path, "x") as file:
                        file.write(text)
            except FileExistsError:
                return False
            return True
        try:
            stream = self._hadoop(path).create(self._path(path), False)
        except Exception:
            if self.exists(path):
                return False
            raise
        stream.write(text.encode())
        stream.close()
        return True

    def move(self, origin: str, target: str) -> None:
        if self._storage.is_local:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(origin, target)
            return
        files = self._hadoop(origin)
        files.mkdirs(self._path(target).getParent())
        if not files.rename(self._path(origin), self._path(target)):
            raise OSError(f"{origin} could not be renamed to {target}")

    def copy(self, origin: str, target: str) -> None:
        """Copies a folder where there is one."""
        if not self.exists(origin):
            return
        if self._storage.is_local:
            shutil.copytree(origin, target)
            return
        assert self._spark is not None
        files, tools = self._hadoop(origin), self._spark._jvm.org.apache.hadoop.fs.FileUtil  # type: ignore[union-attr]
        settings = self._spark._jsparkSession.sessionState().newHadoopConf()
        tools.copy(files, self._path(origin), files, self._path(target), False, settings)

    def remove(self, path: str) -> None:
        """Removes a file, or a folder with everything in it, where there is one."""
        if self._storage.is_local:
            shutil.rmtree(path) if os.path.isdir(path) else Path(path).unlink(missing_ok=True)
        else:
            self._hadoop(path).delete(self._path(path), True)

    def _far(self, path: str) -> FarPath:
        assert self._spark is not None
        return FarPath.of(self._spark, path)

    def _path(self, path: str) -> Any:
        assert self._spark is not None
        return self._spark._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]

    def _hadoop(self, path: str) -> Any:
        assert self._spark is not None
        configuration = self._spark._jsparkSession.sessionState().newHadoopConf()
        return self._path(path).getFileSystem(configuration)


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    """Raises StorageUnwritable for what the system says of a full or a read-only disk."""
    try:
        yield
    except OSError as problem:
        if problem.errno in _FULL or problem.errno in _READ_ONLY:
            reason, is_full = problem.strerror or str(problem), problem.errno in _FULL
            raise StorageUnwritable(path, reason, is_full=is_full) from problem
        raise


@dataclass(frozen=True, slots=True)
class FileNote:
    """A text in a file, replaced as a whole."""

    files: Files
    path: str

    def read(self) -> str | None:
        return self.files.read(self.path) if self.files.exists(self.path) else None

    def write(self, text: str) -> None:
        self.files.write(self.path, text)


def set_aside(files: Files, storage: Storage, table: str, *, is_managed: bool) -> list[str]:
    """Moves a table's checkpoint, and a managed table's rows with it, out of the way.

    Rows and checkpoint belong together: a fresh checkpoint reads the input again from its
    start, so rows left behind would be there twice.
    """
    now = dt.datetime.now(dt.UTC)
    moved = []
    places = {"checkpoint": storage.checkpoint(table), "batch": storage.batch_mark(table)}
    if is_managed:
        places["table"] = storage.table(table)
    for what, path in places.items():
        if files.exists(path):
            target = storage.aside(table, what, now)
            files.move(path, target)
            moved.append(target)
    return moved


def last_number(files: Files, folder: str) -> int | None:
    """The highest batch in a metadata log of a checkpoint (`offsets`, `commits`)."""
    numbers = [int(name) for name in files.names(folder) if name.isdigit()]
    return max(numbers, default=None)
