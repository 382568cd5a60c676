"""The folder for what is fetched or built once per user and can be had again."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """`HEADWATER_CACHE`, else `headwater` below the user's cache folder; it may not exist yet."""
    own = os.environ.get("HEADWATER_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    base = Path(xdg).expanduser() if xdg else Path.home() / ".cache"
    return base.absolute() / "headwater"


def replace_text(file: Path, text: str, *, mode: int = 0o644) -> None:
    """Write `text` so that a reader, or a crash, sees the old content or all of the new."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Whoever else comes to the folder this way waits, in this process and in others."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
