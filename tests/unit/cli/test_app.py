"""Finding and importing a user's application."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.cli.app import load_app, project_folder
from headwater.errors import (
    AppImportFailed,
    AppNotFound,
    DuplicateName,
    NoPipeline,
    SeveralPipelines,
    UnknownSetting,
)

ONE = """
from headwater import Pipeline
from headwater.connectors import rate
one = Pipeline("one")
one.source("ticks", rate())
one.sql("even", "SELECT * FROM ticks WHERE value % 2 = 0")
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if not name.startswith(("headwater", "pyspark", "sqlglot")):
            del sys.modules[name]


def test_app_py_is_the_default(project: Path) -> None:
    (project / "app.py").write_text(ONE)
    found = load_app(None)
    assert (found.name, found.pipeline.name) == ("app.py", "one")
    assert found.pipeline.settings is found.settings
    assert found.settings.folder == project


def test_headwater_toml_names_the_app(project: Path) -> None:
    (project / "headwater.toml").write_text('app = "jobs/main.py"')
    (project / "jobs").mkdir()
    (project / "jobs/main.py").write_text(ONE)
    assert load_app(None).settings.folder == project


def test_the_project_is_the_nearest_folder_with_settings(project: Path) -> None:
    (project / "headwater.toml").write_text("")
    (project / "a/b").mkdir(parents=True)
    (project / "a/b/app.py").write_text(ONE)
    assert project_folder(project / "a/b") == project
    assert load_app("a/b/app.py").settings.folder == project


def test_an_object_is_named_after_a_file_or_a_module(project: Path) -> None:
    (project / "jobs.py").write_text(ONE + 'two = Pipeline("two")\n')
    assert load_app("jobs.py:two").pipeline.name == "two"
    assert load_app("jobs:one").pipeline.name == "one"


def test_a_folder_of_sql_files_is_an_application(project: Path) -> None:
    (project / "my-job").mkdir()
    (project / "my-job/1.sql").write_text("CREATE VIEW v AS SELECT 1 AS one;")
    (project / "my-job/2.sql").write_text("CREATE STREAMING TABLE t AS SELECT * FROM v;")
    found = load_app("my-job").pipeline
    assert found.name == "my_job"
    assert list(found.definitions().by_name) == ["v", "t"]


def test_workers_find_the_users_modules(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    (project / "app.py").write_text(ONE)
    load_app("app.py")
    assert str(project) in os.environ["PYTHONPATH"].split(os.pathsep)
    assert str(project) in sys.path


def test_several_pipelines_are_refused(project: Path) -> None:
    (project / "app.py").write_text(ONE + 'two = Pipeline("two")\n')
    with pytest.raises(SeveralPipelines) as refused:
        load_app(None)
    assert refused.value.found == "one, two"


def test_an_included_pipeline_is_no_second_one(project: Path) -> None:
    (project / "app.py").write_text(ONE + 'all = Pipeline("all")\nall.include(one)\n')
    assert load_app(None).pipeline.name == "all"


def test_one_pipeline_under_two_names_is_one(project: Path) -> None:
    (project / "app.py").write_text(ONE + "same = one\n")
    assert load_app(None).pipeline.name == "one"


def test_a_file_without_a_pipeline_is_refused(project: Path) -> None:
    (project / "app.py").write_text("x = 1\n")
    with pytest.raises(NoPipeline):
        load_app(None)


def test_an_empty_folder_holds_no_application(project: Path) -> None:
    with pytest.raises(AppNotFound):
        load_app(None)
    with pytest.raises(NoPipeline):
        load_app(".")


def test_a_missing_app_names_the_nearest(project: Path) -> None:
    (project / "stream.py").write_text(ONE)
    with pytest.raises(AppNotFound) as missing:
        load_app("steam.py")
    assert missing.value.remedy == "did you mean 'stream.py'?"


def test_a_missing_object_is_not_found(project: Path) -> None:
    (project / "app.py").write_text(ONE)
    with pytest.raises(AppNotFound) as missing:
        load_app("app.py:on")
    assert missing.value.remedy == "did you mean 'app.py:one'?"


def test_a_missing_module_is_not_found() -> None:
    with pytest.raises(AppNotFound):
        load_app("no_such_module_here:app")


@pytest.mark.parametrize(
    ("text", "line", "kind"),
    [
        ("import no_such_package\n", 1, "ModuleNotFoundError"),
        ("x = 1\ny = x / 0\n", 2, "ZeroDivisionError"),
        ("x = 1\ndef f(:\n", 2, "SyntaxError"),
        ("import sys\nsys.exit(1)\n", 2, "SystemExit"),
        ("import json\njson.loads('{')\n", 2, "JSONDecodeError"),
    ],
)
def test_a_failing_import_shows_the_users_line(
    project: Path, text: str, line: int, kind: str
) -> None:
    (project / "app.py").write_text(text)
    with pytest.raises(AppImportFailed, match=kind) as failed:
        load_app(None)
    assert str(failed.value.where) == f"{project / 'app.py'}:{line}"


def test_a_failure_in_the_users_own_module_shows_that_line(project: Path) -> None:
    (project / "app.py").write_text("import broken_part\n")
    (project / "broken_part.py").write_text("\n\nraise RuntimeError('no')\n")
    with pytest.raises(AppImportFailed) as failed:
        load_app(None)
    assert str(failed.value.where) == f"{project / 'broken_part.py'}:3"


def test_a_wrong_definition_keeps_its_own_error(project: Path) -> None:
    (project / "app.py").write_text(ONE + 'one.source("ticks", rate())\n')
    with pytest.raises(DuplicateName) as refused:
        load_app(None)
    assert refused.value.where is not None
    assert refused.value.where.file == str(project / "app.py")


def test_wrong_settings_are_found_before_the_app(project: Path) -> None:
    (project / "headwater.toml").write_text("ap = 'app.py'")
    with pytest.raises(UnknownSetting):
        load_app(None)


def test_functions_of_the_project_travel_by_value(project: Path) -> None:
    from pyspark import cloudpickle

    (project / "own_part.py").write_text("def double(n):\n    return 2 * n\n")
    (project / "app.py").write_text(ONE + "import own_part, pyspark.sql\n")
    load_app(None)
    assert {"app", "own_part"} <= cloudpickle.list_registry_pickle_by_value()
    assert not any("headwater" in name for name in cloudpickle.list_registry_pickle_by_value())


@pytest.mark.parametrize(
    ("text", "wants"),
    [
        ("from pyspark.sql import functions as F\nF.udf('long')(abs)\n", True),
        ("from pyspark.sql import functions as F\nF.col('x')\n", True),
        ("assert False\n", False),
        ("raise ValueError('x')\n", False),
    ],
)
def test_what_only_a_session_can_make_is_told_apart(
    project: Path, text: str, wants: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwater.cli import app

    opened = []
    monkeypatch.setattr(app, "_open_session", lambda settings, report: opened.append(settings))
    (project / "app.py").write_text(text)
    with pytest.raises(AppImportFailed):
        load_app(None)
    assert bool(opened) is wants
