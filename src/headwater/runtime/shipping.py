"""What executors on other machines need of a project: its Python files, and Headwater's."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import headwater
from headwater.settings import Settings

_LEFT_OUT = {"tests", "test", "node_modules", "build", "dist", "spark-warehouse"}


def python_files(settings: Settings) -> list[str]:
    """Archives for `spark.submit.pyFiles`, made anew for every start."""
    folder = settings.local_folder / "shipped"
    folder.mkdir(parents=True, exist_ok=True)
    package = Path(headwater.__file__).parent
    own = _archive(folder / "headwater.zip", package.parent, _modules(package))
    project = _archive(folder / "project.zip", settings.folder, _modules(settings.folder))
    return [str(project), str(own)]


def _modules(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if not name.startswith((".", "_"))
            and name not in _LEFT_OUT
            and not (Path(place) / name / "pyvenv.cfg").exists()
        ]
        yield from (Path(place) / name for name in files if name.endswith((".py", ".lock")))


def _archive(target: Path, base: Path, files: Iterator[Path]) -> Path:
    draft = target.with_suffix(".new")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(base))
    draft.replace(target)
    return target
