"""Commands and the applications they are given."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors.base import (
    EnvironmentProblem,
    Location,
    QueryError,
    UsageError,
    listed,
    nearest,
)


class NoPipeline(UsageError):
    code = "NO_PIPELINE"

    def __init__(self, app: str) -> None:
        super().__init__(
            f"{app} holds no pipeline",
            expected="one module-level `Pipeline` object, or a folder of .sql files",
            remedy='add `app = Pipeline("app")`, or name the object: module:object',
            next_command="headwater new myapp",
        )


class SeveralPipelines(UsageError):
    code = "SEVERAL_PIPELINES"

    def __init__(self, app: str, names: Iterable[str]) -> None:
        names = list(names)
        super().__init__(
            f"{app} holds several pipelines",
            found=listed(names),
            remedy="name one of them, or join them with `include`",
            next_command=f"headwater run {app}:{sorted(names)[0]}",
        )


class AppNotFound(UsageError):
    code = "APP_NOT_FOUND"

    def __init__(self, app: str, candidates: Iterable[str] = ()) -> None:
        close = nearest(app, candidates)
        super().__init__(
            f"there is no application {app!r}",
            expected="a Python file, module:object, or a folder of .sql files",
            remedy=f"did you mean {close!r}?" if close else None,
            next_command="headwater new myapp",
        )


class AppImportFailed(UsageError):
    """The user's file raised while it was imported; the cause is the user's own."""

    code = "APP_IMPORT_FAILED"

    def __init__(self, app: str, cause: BaseException, *, where: Location | None = None) -> None:
        super().__init__(
            f"{app} could not be imported: {type(cause).__name__}",
            where=where,
            found=str(cause) or repr(cause),
            data="nothing was read or written",
        )


class NotRunning(UsageError):
    code = "NOT_RUNNING"

    def __init__(self, what: str, *, folder: str | None = None) -> None:
        super().__init__(
            what,
            found=f"no pipeline runs in {folder}" if folder else "no such pipeline runs",
            next_command="headwater run",
        )


class RowsNotKept(UsageError):
    """A table whose sink keeps nothing that could be read back."""

    code = "ROWS_NOT_KEPT"

    def __init__(self, table: str, sink: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"the rows of table {table!r} cannot be read back from {sink}",
            where=where,
            remedy="leave `into` out for a managed Delta table, or choose a sink that keeps rows",
        )


class OptionsConflict(UsageError):
    code = "OPTIONS_CONFLICT"

    def __init__(self, option: str, problem: str, next_command: str) -> None:
        super().__init__(f"{option} means nothing {problem}", next_command=next_command)


class InvalidProjectName(UsageError):
    code = "INVALID_PROJECT_NAME"

    def __init__(self, found: str) -> None:
        super().__init__(
            f"{found!r} cannot be made: its last part also names the pipeline",
            expected="letters, digits and single underscores, beginning with a letter",
            next_command="headwater new myapp",
        )


class FolderTaken(UsageError):
    code = "FOLDER_TAKEN"

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"{folder} exists and is not an empty folder",
            remedy="choose another name, or move it away",
            data="nothing in it was changed",
        )


class UnknownModel(UsageError):
    code = "UNKNOWN_MODEL"

    def __init__(self, name: str, models: Iterable[str]) -> None:
        models = list(models)
        close = nearest(name, models)
        super().__init__(
            f"the pipeline has no model {name!r}",
            expected=listed(models),
            remedy=f"did you mean {close!r}?" if close else None,
        )


class UnknownVersion(UsageError):
    """A version of a model that does not exist, or that holds nothing to go back to."""

    code = "UNKNOWN_VERSION"

    def __init__(self, model: str, problem: str, versions: Iterable[int]) -> None:
        super().__init__(
            f"model {model!r}: {problem}",
            expected=f"one of the versions: {', '.join(map(str, sorted(versions))) or 'none yet'}",
            next_command=f"headwater model show {model}",
        )


class TrainingRefused(QueryError):
    """A training that was asked for by hand brought no new version."""

    code = "TRAINING_REFUSED"

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(
            f"model {model!r} was trained and not published",
            found=reason,
            data="the running version stays",
            next_command=f"headwater model show {model}",
        )


class StillRunning(QueryError):
    code = "STILL_RUNNING"

    def __init__(self, pipeline: str, pid: int, timeout_s: float) -> None:
        super().__init__(
            f"pipeline {pipeline!r} (process {pid}) did not end within {timeout_s:.0f} s",
            data="it was asked to stop and ends when its running batches are committed",
            next_command="headwater status",
        )


class RequestFailed(QueryError):
    """A running pipeline could not do what it was asked for."""

    code = "REQUEST_FAILED"

    def __init__(self, pipeline: str, found: str) -> None:
        super().__init__(f"pipeline {pipeline!r} could not do it", found=found)


class NotInRepository(UsageError):
    code = "NOT_IN_REPOSITORY"

    def __init__(self, command: str) -> None:
        super().__init__(
            f"headwater {command} works in a checkout of Headwater's repository only",
            remedy="clone the repository and run it there",
            next_command=f"./headwater {command}",
        )


class NoTests(UsageError):
    code = "NO_TESTS"

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"there are no tests in {folder}",
            expected="a folder tests/ with test_*.py files",
            next_command="headwater new myapp",
        )


class PytestMissing(EnvironmentProblem):
    code = "PYTEST_MISSING"

    def __init__(self) -> None:
        super().__init__(
            "headwater test runs pytest, which is not installed",
            remedy="pip install pytest",
            next_command="headwater test",
        )
