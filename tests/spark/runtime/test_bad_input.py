"""Disks, checkpoints and clocks that fail: a run goes on exactly, or says what happened."""

from __future__ import annotations

import contextlib
import json as jsonlib
import os
import resource
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import json
from headwater.definitions import Trigger
from headwater.errors import (
    CheckpointDamaged,
    CheckpointIncompatible,
    HeadwaterError,
    QueryFailedError,
    StorageLeased,
    StorageUnwritable,
)
from headwater.events import silent
from headwater.runtime.clock import ManualClock
from headwater.runtime.queries import RunningQueries
from headwater.settings import Settings

pytestmark = pytest.mark.usefixtures("spark")
SCHEMA = "device string, at timestamp, n long"


def write(folder: Path, number: int, *values: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    rows = [{"device": "a", "at": f"2026-01-01T12:{v:02}:05Z", "n": v} for v in values]
    (folder / "draft").write_text("".join(jsonlib.dumps(row) + "\n" for row in rows))
    (folder / "draft").rename(folder / "in" / f"{number}.json")


def application(folder: Path, *, name: str = "app", **settings: Any) -> Pipeline:
    app = Pipeline(name, settings=Settings(folder=folder, restarts=0, **settings))
    app.source(
        "rows",
        json("in"),
        schema=SCHEMA,
        event_time="at",
        watermark="10 minutes",
        max_per_batch="1 file",
    )

    @app.table
    def kept(rows: DataFrame) -> DataFrame:
        return rows.dropDuplicatesWithinWatermark(["n"]).select("n")

    return app


def total(spark: SparkSession, storage: Path) -> int:
    frame = spark.read.format("delta").load(str(storage / "app/tables/kept"))
    return int(frame.agg(F.sum("n")).collect()[0][0])


def begun(folder: Path) -> Path:
    """A pipeline that read two files; the checkpoint of its table."""
    write(folder, 0, 1, 2)
    write(folder, 1, 3)
    application(folder).refresh()
    write(folder, 2, 4)
    return folder / ".headwater/app/checkpoints/kept"


def newest(folder: Path) -> Path:
    return max(folder.glob("[0-9]*"), key=lambda file: int(file.name))


def test_a_damaged_checkpoint_is_told_and_nothing_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = begun(tmp_path)
    for file in (newest(checkpoint / "offsets"), newest(checkpoint / "commits")):
        whole = file.read_text()
        for cut in (whole[: len(whole) // 2], ""):
            file.write_text(cut)
            with pytest.raises(CheckpointDamaged) as caught:
                application(tmp_path).refresh()
            assert str(file) in str(caught.value)
        file.write_text(whole)
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    (state,) = list((checkpoint / "state/0/0").glob("2.changelog"))
    state.rename(tmp_path / "kept")
    with pytest.raises(CheckpointDamaged, match=r"2\.changelog does not exist") as caught:
        application(tmp_path).refresh()
    assert "headwater rebuild kept" in str(caught.value)
    assert total(spark, tmp_path / ".headwater") == 6
    (tmp_path / "kept").rename(state)
    application(tmp_path).refresh()
    assert total(spark, tmp_path / ".headwater") == 10


def test_the_checkpoint_of_another_pipeline_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    begun(tmp_path)
    shutil.move(tmp_path / ".headwater/app", tmp_path / ".headwater/other")
    with pytest.raises(CheckpointIncompatible, match=r"that of app\.kept"):
        application(tmp_path, name="other").refresh()


def mounts(*arguments: str | Path) -> bool:
    """Whether this user may mount; root in a container may not."""
    return subprocess.run(["mount", *arguments], capture_output=True).returncode == 0


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """For root a mode means nothing: then the folder is mounted so."""
    if os.geteuid() != 0:
        folder.chmod(0o500)
        yield
        folder.chmod(0o700)
        return
    if not mounts("--bind", folder, folder):
        pytest.skip("nothing is read-only for a root that may not mount")
    subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_read_only_storage_is_told_and_taken_up_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    begun(tmp_path)
    storage = tmp_path / "storage"
    shutil.move(tmp_path / ".headwater", storage)
    with read_only(storage / "app/lease"), pytest.raises(StorageUnwritable, match="let this user"):
        application(tmp_path, storage="storage").refresh()
    with read_only(storage / "app/checkpoints"), pytest.raises(HeadwaterError) as caught:
        application(tmp_path, storage="storage").refresh()
    assert "let this user write there" in str(caught.value)
    assert total(spark, storage) == 6
    application(tmp_path, storage="storage").refresh()
    assert total(spark, storage) == 10


def _write_for_ever(path: Path) -> None:
    with open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(512))


class Disk:
    """A small disk for who may mount one; for others the JVM may write no longer files."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        handle = spark._jvm.java.lang.ProcessHandle.current()  # type: ignore[union-attr]
        self._jvm = int(handle.pid())
        self._limits = resource.prlimit(self._jvm, resource.RLIMIT_FSIZE)
        self._is_mounted = mounts("-t", "tmpfs", "-o", "size=8m", "tmpfs", folder)

    def fill(self) -> None:
        if not self._is_mounted:
            resource.prlimit(self._jvm, resource.RLIMIT_FSIZE, (0, self._limits[1]))
            return
        with pytest.raises(OSError, match="No space left"):
            _write_for_ever(self.folder / "fill")

    def free(self) -> None:
        resource.prlimit(self._jvm, resource.RLIMIT_FSIZE, self._limits)
        (self.folder / "fill").unlink(missing_ok=True)

    def close(self) -> None:
        self.free()
        if self._is_mounted:
            subprocess.run(["umount", "-l", self.folder], check=True)


def test_a_full_disk_stops_the_table_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    storage.mkdir()
    disk = Disk(spark, storage)
    try:
        write(tmp_path, 0, 1, 2)
        run = application(tmp_path, storage="storage").start()
        run["kept"].streaming_query.processAllAvailable()
        disk.fill()
        write(tmp_path, 1, 3)
        assert run.await_termination(timeout_s=300)
        problem = run["kept"].exception
        assert isinstance(problem, QueryFailedError)
        assert problem.remedy is not None
        assert problem.remedy.startswith("make room on the disk")
        with contextlib.suppress(StorageUnwritable):
            run.stop()
        disk.free()
        application(tmp_path, storage="storage").refresh()
        assert total(spark, storage) == 6
    finally:
        disk.close()


def test_of_two_drivers_that_start_at_once_exactly_one_runs(tmp_path: Path) -> None:
    write(tmp_path, 0, 1)
    folders = [tmp_path / "one", tmp_path / "two"]
    outcomes: list[Any] = []
    ready = threading.Barrier(2)

    def begin(folder: Path) -> None:
        shutil.copytree(tmp_path / "in", folder / "in")
        app = application(folder, storage=str(tmp_path / "storage"), lease_s=2)
        plan = app.plan()
        ready.wait(300)
        try:
            outcomes.append(app.start(plan=plan))
        except StorageLeased as problem:
            outcomes.append(problem)

    threads = [threading.Thread(target=begin, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    refused = [one for one in outcomes if isinstance(one, StorageLeased)]
    running = [one for one in outcomes if not isinstance(one, StorageLeased)]
    for run in running:
        run.stop()
    assert (len(refused), len(running)) == (1, 1)


def test_a_clock_that_jumps_back_changes_no_result(spark: SparkSession, tmp_path: Path) -> None:
    noon = 1_767_268_800_000
    for number, clock in enumerate([noon, noon - 3_600_000, noon + 1000]):
        write(tmp_path, number, number * 15, number * 15 + 1)
        app = application(tmp_path)
        plan = app.plan(trigger=Trigger.available_now())
        run = RunningQueries(
            spark, plan.graph, plan.queries, app.settings, silent, clock=ManualClock(spark, clock)
        )
        run.start()
        assert run.await_termination(timeout_s=300)
        run.stop()
        run.raise_failure()
    assert total(spark, tmp_path / ".headwater") == sum([0, 1, 15, 16, 30, 31])
    log = tmp_path / ".headwater/app/checkpoints/kept/offsets"
    entries = [jsonlib.loads((log / str(n)).read_text().splitlines()[1]) for n in range(3)]
    watermarks = [entry["batchWatermarkMs"] for entry in entries]
    assert watermarks == sorted(watermarks)
