"""Which version of something that changes a batch was planned with.

Written down beside the checkpoint by whoever plans the batch first, so that a batch that runs again
takes the same version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.runtime.offsets import OffsetLog
from headwater.runtime.storage import Files

_KEPT = 100
"""As many as Spark keeps of its own log: a late row's batch may be read again for so long."""


@dataclass(frozen=True, slots=True)
class Pins:
    """The versions of one thing in one checkpoint: a file per batch in `folder`."""

    files: Files
    folder: str

    def version(self, log: OffsetLog, newest: Callable[[], int]) -> int:
        """The version of the batch that runs: `newest` where it runs for the first time."""
        batch = log.latest_batch()
        path = f"{self.folder}/{batch}"
        if self.files.exists(path):
            return int(self.files.read(path))
        version = newest()
        self.files.write(path, str(version))
        for name in self.files.names(self.folder):
            if name.isdigit() and int(name) < batch - _KEPT:
                self.files.remove(f"{self.folder}/{name}")
        return version
