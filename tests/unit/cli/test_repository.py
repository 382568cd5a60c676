from pathlib import Path

import pytest

from headwater.cli import main, repository
from headwater.cli.test import TIERS, Outcome


def test_this_checkout_is_found_from_inside() -> None:
    here = Path(__file__)
    root = repository.repository(here.parent)
    assert root is not None
    assert here.is_relative_to(root)


def test_the_unit_tier_comes_first() -> None:
    assert TIERS == ("unit", "spark", "e2e")


def test_outside_a_checkout_bench_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(repository, "is_checkout", lambda folder: False)
    assert main.main(["bench", "--last"]) == 2
    assert "NOT_IN_REPOSITORY" in capsys.readouterr().err


def test_a_project_without_tests_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "headwater.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert main.main(["test"]) == 2
    assert "NO_TESTS" in capsys.readouterr().err


def test_an_outcome_is_one_line() -> None:
    assert Outcome("mypy", 0, 1.25).line().split() == ["mypy", "passed", "1.2", "s"]
    assert "failed (1)" in Outcome("mypy", 1, 1.25).line()
