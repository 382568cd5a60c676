"""The lease of a storage, on a local folder."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.errors import LeaseLost, StorageLeased
from headwater.local.processes import wait_until
from headwater.runtime.leases import Lease
from headwater.runtime.storage import Files, Storage


def lease(folder: Path, lasts_s: float = 30) -> Lease:
    storage = Storage(str(folder), "app")
    return Lease(storage, Files(storage), lasts_s=lasts_s)


def newest(folder: Path) -> Path:
    return max((folder / "app/lease").iterdir())


def test_of_two_drivers_one_has_the_storage(tmp_path: Path) -> None:
    first, second = lease(tmp_path, 0.5), lease(tmp_path, 0.5)
    first.take()
    first.keep(lambda lost: None, pids=[os.getpid()])
    with pytest.raises(StorageLeased) as caught:
        second.take()
    assert f"process {os.getpid()}" in str(caught.value)
    first.release()
    second.take()
    assert second.holder is not None


class AtOnce(Files):
    """Everybody has seen that nobody holds the lease before anybody takes it."""

    start: threading.Barrier

    def create(self, path: str, text: str) -> bool:
        self.start.wait(30)
        return super().create(path, text)


class Overwriting(AtOnce):
    """A storage that does not refuse a file which exists."""

    def create(self, path: str, text: str) -> bool:
        self.start.wait(30)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
        return True


@pytest.mark.parametrize(("kind", "winners"), [(AtOnce, 1), (Overwriting, 4)])
def test_of_drivers_that_start_at_once_one_wins_by_the_storages_refusal(
    tmp_path: Path, kind: type[AtOnce], winners: int
) -> None:
    """Without the refusal all of them win: the lease rests on nothing else."""
    storage = Storage(str(tmp_path), "app")
    kind.start = threading.Barrier(4)
    drivers = [Lease(storage, kind(storage), lasts_s=30) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        taken = list(threads.map(Lease.try_take, drivers))
    assert sum(taken) == winners


def test_one_that_ended_leaves_it_at_once_and_files_do_not_pile_up(tmp_path: Path) -> None:
    for _ in range(3):
        one = lease(tmp_path)
        one.take()
        one.release()
    assert [file.name for file in (tmp_path / "app/lease").iterdir()] == ["0000000003"]


def test_a_process_that_was_killed_is_known_to_be_dead(tmp_path: Path) -> None:
    first = lease(tmp_path)
    first.take()
    child = subprocess.Popen(["sleep", "60"])
    first.keep(lambda lost: None, pids=[child.pid])
    assert not lease(tmp_path).try_take()
    child.kill()
    child.wait()
    assert lease(tmp_path).try_take()


def test_a_holder_elsewhere_is_waited_for_as_long_as_the_lease_lasts(tmp_path: Path) -> None:
    lease(tmp_path).take()
    content = json.loads(newest(tmp_path).read_text())
    newest(tmp_path).write_text(json.dumps({**content, "machine": "another"}))
    second = lease(tmp_path, 0.3)
    assert not second.try_take()
    assert wait_until(second.try_take, timeout_s=10)


def test_who_stood_still_is_told_that_another_took_over(tmp_path: Path) -> None:
    lost: list[LeaseLost] = []
    first = lease(tmp_path, 0.5)
    first.take()
    (tmp_path / "app/lease/0000000002").write_text(json.dumps({"host": "b", "pid": 7}))
    with pytest.raises(LeaseLost):
        first.keep(lost.append, pids=[os.getpid()])
    first.release()
    assert json.loads(newest(tmp_path).read_text()) == {"host": "b", "pid": 7}


def test_a_lease_that_is_lost_later_is_told_once(tmp_path: Path) -> None:
    lost: list[LeaseLost] = []
    first = lease(tmp_path, 0.5)
    first.take()
    first.keep(lost.append, pids=[os.getpid()])
    (tmp_path / "app/lease/0000000002").write_text(json.dumps({"host": "b", "pid": 7}))
    assert wait_until(lambda: bool(lost), timeout_s=10)
    assert "process 7 on b" in str(lost[0])


def test_a_storage_that_stays_away_ends_the_lease(tmp_path: Path) -> None:
    lost: list[LeaseLost] = []
    first = lease(tmp_path, 0.5)
    first.take()
    first.keep(lost.append, pids=[os.getpid()])
    moved = tmp_path / "elsewhere"
    (tmp_path / "app").rename(moved)
    (tmp_path / "app").write_text("not a folder")
    assert wait_until(lambda: bool(lost), timeout_s=10)
