"""Small files of a Delta table on a disk of this machine, put together without Spark.

Delta does the same behind a commit of Spark's, but it counts what its own process has added: files
of earlier runs, and of commits from here, it does not see.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltalake import DeltaTable

SMALL_FILES = 50
LARGE_BYTES = 64 * 1024**2
"""How large the files become; those below half of it are small."""
_PLAIN = 2
_AT_ONCE_BYTES = 1024**3
"""More is left to the user's own OPTIMIZE: a start must not wait for hours."""


def compact_at(path: str) -> None:
    """As `compact`; nothing where there is no table."""
    from deltalake import DeltaTable

    if DeltaTable.is_deltatable(path):
        compact(DeltaTable(path))


def compact(table: DeltaTable) -> None:
    """Makes one of many small files, in a commit that changes no row, where the table has the
    property for it. If another writer is faster, or it fails, the next time will do."""
    from deltalake.exceptions import DeltaError

    # Tables with features (deletion vectors, column mapping) are Spark's to rewrite.
    is_plain = table.protocol().min_writer_version <= _PLAIN
    is_wanted = table.metadata().configuration.get("delta.autoOptimize.autoCompact") == "true"
    if not (is_plain and is_wanted):
        return
    table.update_incremental()
    if len(table.file_uris()) < SMALL_FILES:
        return
    sizes = [int(size) for size in table.get_add_actions().column("size_bytes").to_pylist()]
    small = [size for size in sizes if size < LARGE_BYTES / 2]
    if len(small) >= SMALL_FILES and sum(small) <= _AT_ONCE_BYTES:
        with contextlib.suppress(DeltaError):
            table.optimize.compact(target_size=LARGE_BYTES)
