"""The right to run a pipeline: the lock of the project's folder, and the lease of the storage."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headwater.errors import LeaseLost, PipelineOwned
from headwater.jvm.classes import java_class
from headwater.runtime.leases import Lease
from headwater.runtime.ownership import Ownership
from headwater.runtime.storage import Files, Storage
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Claim:
    """Taken before a pipeline starts and held until it ended."""

    def __init__(self, spark: SparkSession, settings: Settings, pipeline: str) -> None:
        storage = Storage(settings.storage_root, pipeline)
        self._spark = spark
        self.ownership = Ownership(settings.local_folder, pipeline)
        self.lease = Lease(storage, Files(storage, spark), lasts_s=settings.lease_s)
        self._is_taken = False
        self._lost: LeaseLost | None = None

    def take(self) -> None:
        """Raises PipelineOwned or StorageLeased."""
        if self._is_taken:
            return
        self.ownership.take()
        try:
            self.lease.take()
        except BaseException:
            self.ownership.let_go()
            raise
        self._is_taken = True

    def try_take(self) -> str | None:
        """Who has it; None where it is held now. To be called again and again by who waits."""
        try:
            self.ownership.take()
        except PipelineOwned as owned:
            return owned.found or "another process of this folder"
        if self.lease.try_take():
            self._is_taken = True
            return None
        self.ownership.let_go()
        return self.lease.holder or "another driver"

    def keep(self, on_lost: Callable[[LeaseLost], None]) -> None:
        """Renews the lease until `release` or `let_go`."""
        handles = java_class(self._spark, "java.lang.ProcessHandle")
        self.lease.keep(on_lost, pids=[os.getpid(), int(handles.current().pid())])

    def keep_for(self) -> Callable[[], None]:
        """Renews the lease, and gives a function that raises LeaseLost where another driver has
        taken over: to be called before what was made is put in place."""

        def on_lost(lost: LeaseLost) -> None:
            self._lost = lost

        def require() -> None:
            if self._lost is not None:
                raise self._lost

        self.keep(on_lost)
        return require

    def release(
        self,
        last_batches: dict[str, int | None],
        failures: dict[str, str],
        changes: dict[str, dict[str, str | None]],
    ) -> None:
        """Also says how the run ended."""
        self._is_taken = False
        try:
            self.lease.release()
        finally:
            self.ownership.release(last_batches, failures, changes)

    def let_go(self) -> None:
        """Leaves the record of the last run as it is."""
        self._is_taken = False
        try:
            self.lease.release()
        finally:
            self.ownership.let_go()


@contextlib.contextmanager
def leased(spark: SparkSession, settings: Settings, pipeline: str) -> Iterator[None]:
    """While entered no other driver may write to the storage; raises LeaseLost at the end where
    one did take over."""
    storage = Storage(settings.storage_root, pipeline)
    lease = Lease(storage, Files(storage, spark), lasts_s=settings.lease_s)
    lost: list[LeaseLost] = []
    lease.take()
    try:
        lease.keep(lost.append, pids=[os.getpid()])
        yield
    finally:
        lease.release()
    if lost:
        raise lost[0]
