"""Finds a checkout of Headwater's own repository."""

from __future__ import annotations

from pathlib import Path


def repository(near: Path | None = None) -> Path | None:
    """The checkout that `near` (default: the working folder) is in, else the one that this
    package is installed from."""
    start = (near or Path.cwd()).resolve()
    package = Path(__file__).resolve().parents[3]
    return next((f for f in (start, *start.parents, package) if is_checkout(f)), None)


def is_checkout(folder: Path) -> bool:
    parts = ("pyproject.toml", "bench", "tests/unit", "src/headwater")
    return all((folder / part).exists() for part in parts)
