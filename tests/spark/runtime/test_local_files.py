from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def test_files_get_their_permissions_without_a_process(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    local = jvm.org.apache.hadoop.fs.FileSystem.getLocal(spark._jsc.hadoopConfiguration())
    assert local.getClass().getName() == "io.headwater.LocalFiles"
    file = tmp_path / "folder" / "file"
    path = jvm.org.apache.hadoop.fs.Path(str(file))
    local.create(path, True).close()
    permission = jvm.org.apache.hadoop.fs.permission.FsPermission("640")
    local.setPermission(path, permission)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert local.getFileStatus(path).getPermission().toString() == "rw-r-----"


def test_sticky_folder_stays_sticky(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    local = jvm.org.apache.hadoop.fs.FileSystem.getLocal(spark._jsc.hadoopConfiguration())
    permission = jvm.org.apache.hadoop.fs.permission.FsPermission("1777")
    local.setPermission(jvm.org.apache.hadoop.fs.Path(str(tmp_path)), permission)
    assert stat.S_IMODE(os.stat(tmp_path).st_mode) == 0o1777
