"""A second driver takes over from one that is killed or stands still; exactly one writes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.local.processes import wait_until
from headwater.observe.rows import delta_rows

WAIT_S = 600.0
APP = """
from headwater import Pipeline
from headwater.connectors import json

app = Pipeline("app")
app.source("rows", json("{inbox}"), schema="id long", max_per_batch="1 file")
app.table(name="raw")(lambda rows: rows)
"""


class Site:
    """Two folders with the same application, as on two machines, and one storage."""

    def __init__(self, folder: Path) -> None:
        self.inbox, self.storage = folder / "in", folder / "storage"
        self.inbox.mkdir()
        self.folders = [folder / "one", folder / "two"]
        for place in self.folders:
            place.mkdir()
            (place / "app.py").write_text(APP.format(inbox=self.inbox))
        self.added = 0

    def add(self) -> None:
        draft = self.inbox.parent / "draft"
        draft.write_text(json.dumps({"id": self.added}) + "\n")
        draft.rename(self.inbox / f"{self.added:03}.json")
        self.added += 1

    def ids(self) -> list[int]:
        found = delta_rows(str(self.storage / "app/tables/raw"), 10_000)
        return [] if found is None else sorted(row[0] for row in found.rows)

    def has_all(self) -> bool:
        return self.ids() == list(range(self.added))

    def holder(self) -> list[int]:
        """The processes of the driver that holds the storage: Python's and Spark's."""
        content = json.loads(max((self.storage / "app/lease").iterdir()).read_text())
        return [pid for pid, _ in content["processes"]]


def test_drivers_that_are_killed_or_stand_still_are_replaced(
    tmp_path: Path, start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_LEASE_S", "3")
    site = Site(tmp_path)
    site.add()
    storage = ("--storage", str(site.storage))
    first = start("run", "--supervise", *storage, folder=site.folders[0])
    assert wait_until(site.has_all, timeout_s=WAIT_S), first.output
    second = start("run", "--standby", *storage, folder=site.folders[1])
    second.until("Standing by: process")

    # The one that stands by is faster than the restart, which then finds the storage taken.
    os.kill(site.holder()[0], signal.SIGKILL)
    second.until("Taking over")
    site.add()
    assert wait_until(site.has_all, timeout_s=WAIT_S), second.output
    assert first.end() == 2, first.output
    assert "was ended by SIGKILL; restart 1 of 5" in first.output
    assert "STORAGE_LEASED" in first.output

    # A driver that stands still is replaced, and gives up when it wakes.
    third = start("run", "--supervise", "--standby", *storage, folder=site.folders[0])
    third.until("Standing by: process")
    still = site.holder()
    for pid in still:
        os.kill(pid, signal.SIGSTOP)
    third.until("Taking over")
    site.add()
    assert wait_until(site.has_all, timeout_s=WAIT_S), third.output
    for pid in still:
        os.kill(pid, signal.SIGCONT)
    assert second.end() == 3, second.output
    assert "LEASE_LOST" in second.output

    # Spark's process dies without Python's.
    os.kill(site.holder()[1], signal.SIGKILL)
    third.until("restart 1 of 5")
    site.add()
    assert wait_until(site.has_all, timeout_s=WAIT_S), third.output
    assert "SPARK_ENDED" in third.output
    site.add()
    stop = start("stop", "--drain", *storage, folder=site.folders[0])
    assert stop.end() == 0, stop.output
    assert third.end() == 0, third.output
    assert site.has_all()
