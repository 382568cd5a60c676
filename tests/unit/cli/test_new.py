from pathlib import Path

import pytest

from headwater.cli import main
from headwater.cli.new import TEMPLATES, make
from headwater.errors import FolderTaken, InvalidProjectName


def test_a_new_folder_holds_an_application(tmp_path: Path) -> None:
    made = make(tmp_path / "myapp")
    assert {".gitignore", "app.py", "tables.sql", "headwater.toml"} <= set(made)
    assert 'Pipeline("myapp")' in (tmp_path / "myapp/app.py").read_text()
    assert not any("{{" in (tmp_path / "myapp" / name).read_text() for name in made)


def test_the_next_commands_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["new", "myapp"]) == 0
    told = capsys.readouterr().out
    assert "cd myapp" in told
    assert "headwater run" in told


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "myapp").mkdir()
    assert make(tmp_path / "myapp")


def test_a_filled_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "myapp").mkdir()
    (tmp_path / "myapp/kept").write_text("mine")
    with pytest.raises(FolderTaken):
        make(tmp_path / "myapp")
    assert [entry.name for entry in (tmp_path / "myapp").iterdir()] == ["kept"]


@pytest.mark.parametrize("name", ["2fast", "my-app", "a__b", "_a", "ä b"])
def test_a_name_must_serve_as_a_pipelines(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidProjectName):
        make(tmp_path / name)


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_is_a_whole_application_of_one_page(tmp_path: Path, template: str) -> None:
    made = make(tmp_path / "myapp", template=template)
    assert {".gitignore", "app.py", "headwater.toml", "README.md", "tests/test_app.py"} <= set(made)
    assert any(name.startswith("data/") for name in made)
    assert len((tmp_path / "myapp/app.py").read_text().splitlines()) <= 60
    assert not any("{{" in (tmp_path / "myapp" / name).read_text() for name in made)
