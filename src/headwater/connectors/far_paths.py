"""Files of a storage that only Spark reaches, as far as they are looked at from here; the methods
are those of `pathlib.Path`."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from headwater.jvm.classes import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class FarPath:
    """A file or a folder by its URI, as Spark writes it down."""

    uri: str
    _spark: SparkSession = field(compare=False, repr=False)
    _status: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, spark: SparkSession, path: str) -> FarPath:
        """By a path as a user writes it, with characters that a URI would quote."""
        made = java_class(spark, "org.apache.hadoop.fs.Path")(path)
        return cls(str(made.toUri().toString()), spark)

    def at(self, uri: str) -> FarPath:
        """Another one of the same storage."""
        return FarPath(uri, self._spark)

    @property
    def name(self) -> str:
        return urllib.parse.unquote(self.uri.rstrip("/").rpartition("/")[2])

    @property
    def suffix(self) -> str:
        stem, dot, ending = self.name.rpartition(".")
        return dot + ending if stem else ""

    def __truediv__(self, name: str) -> FarPath:
        return self.at(f"{self.uri.rstrip('/')}/{urllib.parse.quote(name)}")

    def __str__(self) -> str:
        return self.uri

    def exists(self) -> bool:
        return bool(self._files.exists(self._path))

    def is_dir(self) -> bool:
        if self._status is None and not self.exists():
            return False
        return bool(self._found.isDirectory())

    def is_symlink(self) -> bool:
        return False

    def iterdir(self) -> Iterator[FarPath]:
        for status in self._files.listStatus(self._path):
            yield FarPath(str(status.getPath().toUri().toString()), self._spark, status)

    def stat(self) -> SimpleNamespace:
        return SimpleNamespace(st_mtime=self._found.getModificationTime() / 1000)

    def read_text(self) -> str:
        stream = self._files.open(self._path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def unlink(self, *, missing_ok: bool = False) -> None:
        if not self._files.delete(self._path, False) and not missing_ok:
            raise FileNotFoundError(self.uri)

    def resolve(self) -> FarPath:
        return self

    @property
    def _found(self) -> Any:
        return self._status or self._files.getFileStatus(self._path)

    @property
    def _path(self) -> Any:
        uri = java_class(self._spark, "java.net.URI").create(self.uri)
        return java_class(self._spark, "org.apache.hadoop.fs.Path")(uri)

    @property
    def _files(self) -> Any:
        configuration = self._spark._jsparkSession.sessionState().newHadoopConf()
        return self._path.getFileSystem(configuration)
