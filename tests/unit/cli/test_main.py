"""The command line as a whole: help, unknown commands, errors, exit codes."""

import argparse
import re
import subprocess
import sys

import pytest

from headwater.cli import exit_codes, main
from headwater.cli.main import COMMANDS
from headwater.errors import EnvironmentProblem, HeadwaterError, QueryError, UsageError


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> type[Exception]:
    """A command `plan` that raises what the test puts into `raised`."""
    from headwater.cli import plan

    class Raised(Exception):
        problem: Exception

    def run(args: argparse.Namespace) -> int:
        raise Raised.problem

    monkeypatch.setattr(plan, "run", run)
    return Raised


def test_help_names_every_command_and_imports_no_spark() -> None:
    code = (
        "import sys; from headwater.cli.main import main; main(['--help']);"
        "print('spark' if 'pyspark' in sys.modules else 'no spark')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert all(re.search(rf"\n    {name}\s", done.stdout) for name in COMMANDS)
    assert done.stdout.endswith("no spark\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([command, "--help"]) == 0
    assert f"usage: headwater {command}" in capsys.readouterr().out


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["rnu"]) == exit_codes.ExitCode.USAGE
    assert "did you mean 'run'?" in capsys.readouterr().err


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == exit_codes.ExitCode.USAGE
    assert "headwater --help" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("headwater ")


@pytest.mark.parametrize(
    ("problem", "code"),
    [(UsageError("u"), 2), (EnvironmentProblem("e"), 3), (QueryError("q"), 1)],
)
def test_an_error_is_text_and_its_exit_code(
    problem: HeadwaterError, code: int, failing: type, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.problem = problem  # type: ignore[attr-defined]
    assert main.main(["plan"]) == code
    assert capsys.readouterr().err == f"{problem}\n"


def test_the_cause_is_told_with_verbose_only(
    failing: type, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = UsageError("outer")
    problem.__cause__ = ValueError("inner")
    failing.problem = problem  # type: ignore[attr-defined]
    main.main(["plan"])
    assert "inner" not in capsys.readouterr().err
    main.main(["plan", "--verbose"])
    assert "ValueError: inner" in capsys.readouterr().err


def test_an_unexpected_error_is_short(failing: type, capsys: pytest.CaptureFixture[str]) -> None:
    failing.problem = RuntimeError("boom\n\nJVM stacktrace:\nat x.y.z")  # type: ignore[attr-defined]
    assert main.main(["plan"]) == exit_codes.ExitCode.FAILED
    told = capsys.readouterr().err
    assert "UNEXPECTED: RuntimeError" in told
    assert "Traceback" not in told
    assert "x.y.z" not in told


def test_arguments_of_tests_and_benchmarks_are_handed_on() -> None:
    assert main._parsed(["test", "unit", "-k", "parsing", "-x"]).arguments == [
        "unit",
        "-k",
        "parsing",
        "-x",
    ]
    assert main._parsed(["bench", "--last"]).arguments == ["--last"]


def test_exit_codes_are_documented() -> None:
    documented = exit_codes.__doc__ or ""
    assert all(f"\n{int(code)} " in documented for code in exit_codes.ExitCode)
