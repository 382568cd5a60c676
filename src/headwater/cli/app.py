"""Finds the user's application, imports it and hands it the project's settings."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from headwater.errors import (
    AppImportFailed,
    AppNotFound,
    HeadwaterError,
    Location,
    NoPipeline,
    SeveralPipelines,
)
from headwater.events import Report, silent
from headwater.settings import FILE, Settings, load

if TYPE_CHECKING:
    from headwater.pipeline import Pipeline

DEFAULT = "app.py"
Flags = Mapping[str, str | int | None]


@dataclass(frozen=True, slots=True)
class Application:
    """A user's pipeline with the settings of its project; `name` is how the user called it."""

    name: str
    pipeline: Pipeline
    settings: Settings


def load_app(
    name: str | None, *, flags: Flags | None = None, report: Report = silent
) -> Application:
    """The application that `name` means, ready to run: its pipeline has its settings.

    Without a name it is `app` of headwater.toml, else app.py, else the .sql files of the project.
    Raises AppNotFound, AppImportFailed, NoPipeline, SeveralPipelines and every settings error.
    """
    if name is None:
        settings = load(project_folder(Path.cwd()), flags=flags)
        name = settings.app or DEFAULT
        target = _target(name, settings.folder)
        if settings.app is None and target is None and any(settings.folder.glob("*.sql")):
            target = _Target(settings.folder)
    else:
        target = _target(name, Path.cwd())
        near = target.path if target and target.path else Path.cwd()
        settings = load(project_folder(near), flags=flags)
    if target is None:
        raise AppNotFound(name, _candidates(Path.cwd()))
    _make_importable(settings.folder)
    try:
        pipeline = _pipeline_of(name, target, settings.folder)
    except AppImportFailed as problem:
        if not _wants_session(problem.__cause__):
            raise
        _open_session(settings, report)
        pipeline = _pipeline_of(name, target, settings.folder)
    _travel_by_value(settings.folder)
    pipeline.use_settings(settings)
    return Application(name, pipeline, settings)


def project_folder(near: Path) -> Path:
    """The nearest folder upwards that holds headwater.toml, else the folder itself."""
    start = (near if near.is_dir() else near.parent).resolve()
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            return folder
    return start


@dataclass(frozen=True, slots=True)
class _Target:
    """A Python file, a folder of .sql files or (without a path) a module; maybe one object."""

    path: Path | None = None
    module: str | None = None
    attribute: str | None = None


def _target(name: str, base: Path) -> _Target | None:
    path = base / name
    if path.is_file() or path.is_dir():
        return _Target(path.resolve())
    place, _, attribute = name.rpartition(":")
    if place and (base / place).is_file():
        return _Target((base / place).resolve(), attribute=attribute)
    module = place or name
    if all(part.isidentifier() for part in module.split(".")) and not name.endswith(".py"):
        return _Target(module=module, attribute=attribute if place else None)
    return None


def _candidates(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.suffix == ".py" or entry.is_dir()]


def _pipeline_of(name: str, target: _Target, folder: Path) -> Pipeline:
    if target.path is not None and target.path.is_dir():
        return _from_sql(target.path)
    module = _module(name, target, folder)
    if target.attribute is None:
        return _only_pipeline(name, module)
    from headwater.pipeline import Pipeline

    if not hasattr(module, target.attribute):
        place = name.rpartition(":")[0]
        raise AppNotFound(name, [f"{place}:{known}" for known in _pipelines(module)])
    found = getattr(module, target.attribute)
    if not isinstance(found, Pipeline):
        raise NoPipeline(name)
    return found


def _from_sql(folder: Path) -> Pipeline:
    from headwater.pipeline import Pipeline

    files = sorted(folder.glob("*.sql"))
    if not files:
        raise NoPipeline(str(folder))
    words = "".join(c if c.isalnum() else " " for c in folder.name).split()
    name = "_".join(words) or "app"
    pipeline = Pipeline(name if name[0].isalpha() else f"app_{name}")
    for file in files:
        pipeline.sql_file(file)
    return pipeline


def _make_importable(folder: Path) -> None:
    """Python workers are started by the JVM, so they learn the user's folder from the
    environment that the JVM inherits."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(folder) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, paths)])


def _travel_by_value(folder: Path) -> None:
    """Functions of the user's modules are sent to workers whole. By name, workers would import
    the module again, where a UDF cannot be declared, and on a cluster it would not be there."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import cloudpickle

    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or name.split(".")[0] in ("headwater", "__main__"):
            continue
        if Path(file).is_relative_to(folder) and not _IS_INSTALLED & set(Path(file).parts):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


_IS_INSTALLED = {"site-packages", "dist-packages"}


def _wants_session(cause: BaseException | None) -> bool:
    """Whether PySpark failed only because no session was there: a UDF whose type is a string, or
    a column outside a function, is made in the JVM."""
    if isinstance(cause, AssertionError):
        last = traceback.extract_tb(cause.__traceback__)[-1]
        return "pyspark" in Path(last.filename).parts
    return "SESSION_OR_CONTEXT_NOT_EXISTS" in str(cause)


def _open_session(settings: Settings, report: Report) -> None:
    # Which jars are needed is not known before the import, and a running JVM takes no others.
    from headwater.local.jars import JarSet
    from headwater.runtime.session import open_session

    jars = [jar for jar in JarSet if jar is not JarSet.KAFKA_BROKER]
    open_session(settings, jars, report=report)


def _module(name: str, target: _Target, folder: Path) -> ModuleType:
    try:
        if target.path is None:
            assert target.module is not None
            return importlib.import_module(target.module)
        _make_importable(target.path.parent)
        return _import_file(target.path)
    except HeadwaterError:
        raise
    except (Exception, SystemExit) as cause:
        is_missing = isinstance(cause, ModuleNotFoundError) and target.path is None
        if is_missing and str(target.module).split(".")[0] == str(getattr(cause, "name", None)):
            raise AppNotFound(name, _candidates(Path.cwd())) from None
        raise AppImportFailed(name, cause, where=_users_line(cause, target, folder)) from cause


def _import_file(path: Path) -> ModuleType:
    # Workers import the module by this name to find the user's functions.
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise AppNotFound(str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _users_line(cause: BaseException, target: _Target, folder: Path) -> Location | None:
    if isinstance(cause, SyntaxError) and cause.filename:
        return Location(cause.filename, cause.lineno or 1)
    own = str(folder)
    for entry in reversed(traceback.extract_tb(cause.__traceback__)):
        is_own = entry.filename.startswith(own) and "site-packages" not in entry.filename
        if entry.filename == str(target.path) or is_own:
            return Location(entry.filename, entry.lineno or 1)
    return None


def _only_pipeline(name: str, module: ModuleType) -> Pipeline:
    found = _pipelines(module)
    outermost: list[str] = []
    for known, pipeline in found.items():
        # Of two that declare the same, the one that stands later includes the other.
        outermost = [outer for outer in outermost if not _includes(pipeline, found[outer])]
        if not any(_includes(found[outer], pipeline) for outer in outermost):
            outermost.append(known)
    if not outermost:
        raise NoPipeline(name)
    if len(outermost) > 1:
        raise SeveralPipelines(name, outermost)
    return found[outermost[0]]


def _pipelines(module: ModuleType) -> dict[str, Pipeline]:
    from headwater.pipeline import Pipeline

    found: dict[str, Pipeline] = {}
    for known, value in vars(module).items():
        if isinstance(value, Pipeline) and not _holds(found.values(), value):
            found[known] = value
    return found


def _holds(pipelines: Iterable[Pipeline], pipeline: Pipeline) -> bool:
    return any(other is pipeline for other in pipelines)


def _includes(outer: Pipeline, inner: Pipeline) -> bool:
    """Whether `outer` took over what `inner` declares."""
    mine, others = outer.definitions().by_name, inner.definitions().by_name
    return bool(others) and all(mine.get(name) is known for name, known in others.items())
