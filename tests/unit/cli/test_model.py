"""`headwater model`, on versions that are there; none of this starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.main import main
from headwater.definitions import Model, PythonBody
from headwater.runtime.models import ModelStore, Used, Version
from headwater.runtime.storage import Storage

APP = """\
from headwater import Pipeline
from headwater.connectors import rate

app = Pipeline("app")
app.source("ticks", rate())


@app.table
def raw(ticks):
    return ticks


@app.model(trained_on="raw", every="5 minutes", schema="highest bigint")
def top(raw):
    return raw
"""
MODEL = Model("top", PythonBody(lambda raw: raw, ("raw",)), "raw", schema="highest bigint")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelStore:
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    made = ModelStore(Storage(str(tmp_path / ".headwater"), "app"), MODEL)
    for version in (
        Version(1, "2026-01-05T10:00:00+00:00", 2.0, MODEL.columns, 200, -3.5),
        Version(2, "2026-01-05T10:05:00+00:00", 2.0, MODEL.columns, problem="it returned nothing"),
        Version(3, "2026-01-05T10:10:00+00:00", 2.0, MODEL.columns, 200, -2.5, 1, -3.25),
    ):
        made.record(version)
    made.publish(3)
    return made


def test_a_list_says_which_version_is_used(
    store: ModelStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "list"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "model"
    assert "version 3" in line
    assert "-2.5" in line
    assert "5 minutes" in line


def test_a_model_is_shown_with_every_training_and_the_reason_of_a_refusal(
    store: ModelStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "show", "top"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("top: version 3 is used\n")
    assert "version 2 was refused: it returned nothing" in shown
    assert shown.count("published") == 2


def test_rollback_pins_the_version_before_until_it_is_unpinned(store: ModelStore) -> None:
    assert main(["model", "rollback", "top"]) == 0
    assert store.used() == Used(1, is_pinned=True)
    assert not store.publish(3)
    assert store.running() == 1
    assert main(["model", "unpin", "top"]) == 0
    assert store.used() == Used(3)


def test_a_version_that_was_published_can_be_pinned(store: ModelStore) -> None:
    assert main(["model", "pin", "top", "1"]) == 0
    assert store.used() == Used(1, is_pinned=True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pin", "top", "9"], "UNKNOWN_VERSION: model 'top': there is no version 9"),
        (["pin", "top", "2"], "version 2 holds nothing"),
        (["pin", "top"], "say which version"),
        (["show", "top", "9"], "there is no version 9"),
        (["show", "tap"], "UNKNOWN_MODEL: the pipeline has no model 'tap'"),
        (["rollback"], "UNKNOWN_MODEL"),
    ],
)
def test_what_is_not_there_is_refused(
    store: ModelStore, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert main(["model", *arguments]) == 2
    assert told in capsys.readouterr().err
    assert store.used() == Used(3)


def test_there_is_nothing_before_the_first_version(
    store: ModelStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.pin(1)
    assert main(["model", "rollback", "top"]) == 2
    assert "no version was published before 1" in capsys.readouterr().err


def test_versions_with_other_columns_are_not_used(store: ModelStore) -> None:
    wider = Model("top", MODEL.body, "raw", schema="highest bigint, lowest bigint")
    after = ModelStore(store._storage, wider)
    assert after.running() == 0
    assert after.usable() == []
    assert store.running() == 3
