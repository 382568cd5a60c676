"""`./headwater` as a stranger meets it; the programs of others (uv, java) are stand-ins."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from headwater.local.processes import mark, wait_until

ROOT = Path(__file__).parents[2]
TOOLS = ("cat", "dirname", "flock", "grep", "ls", "mkdir", "mv", "rm", "sleep", "tail")


class Clone(NamedTuple):
    """A clone of the repository whose environment has the tools but not the packages yet."""

    root: Path
    path: Path

    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HEADWATER", "JAVA"))}
        return kept | {"PATH": str(self.path)}

    def start(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = ["/bin/bash", str(self.root / "headwater"), *arguments]
        environment = self.environment() | more
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def uv_calls(self) -> list[str]:
        calls = self.root / "uv-calls"
        return calls.read_text().splitlines() if calls.exists() else []

    def set_uv(self, script: str = "") -> None:
        program(
            self.root / ".venv" / "bin" / "uv",
            f'[[ $1 == --version ]] && exit 0\necho "$*" >>{self.root}/uv-calls\n{script}',
        )


def program(file: Path, script: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/bash\n{script}\n")
    file.chmod(0o755)


def java(home: Path, version: str) -> str:
    program(home / "bin" / "java", "exit 0")
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return str(home)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    root, path = tmp_path / "clone", tmp_path / "path"
    root.mkdir()
    path.mkdir()
    for name in ("headwater", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(ROOT / "requirements", root / "requirements")
    (root / "src").symlink_to(ROOT / "src")
    for tool in TOOLS:
        if found := shutil.which(tool):
            (path / tool).symlink_to(found)
    python = Path(sys.executable).resolve()
    (path / "python3").symlink_to(python)
    bin_folder = root / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").symlink_to(python)
    (bin_folder / "headwater").write_text("import sys\nprint('ran', *sys.argv[1:])\nsys.exit(7)\n")
    (root / ".venv" / ".headwater").touch()
    (root / ".venv" / ".base").write_text(f"{python}\n")
    made = Clone(root, path)
    made.set_uv()
    return made


def test_the_first_start_sets_up_and_the_second_does_not(clone: Clone) -> None:
    first = clone.start("plan", "app.py")
    done = clone.uv_calls()
    second = clone.start("plan", "app.py")
    assert "Installing the packages" in first.stderr
    assert (first.stdout, first.returncode) == ("ran plan app.py\n", 7)
    assert (second.stdout, second.returncode, second.stderr) == ("ran plan app.py\n", 7, "")
    assert clone.uv_calls() == done


def test_packages_come_from_hashed_locks_only(clone: Clone) -> None:
    clone.start()
    sync = next(call for call in clone.uv_calls() if call.startswith("pip sync"))
    assert "--require-hashes" in sync
    assert f"--build-constraints {clone.root}/requirements/build.lock" in sync
    assert "--reinstall" not in sync
    assert sync.endswith("requirements/bootstrap.lock " + f"{clone.root}/requirements/dev.lock")
    for lock in (ROOT / "requirements").glob("*.lock"):
        text = lock.read_text()
        assert "--hash=sha256:" in text
        assert "://" not in text


def test_a_changed_lock_is_installed_at_the_next_start(clone: Clone) -> None:
    clone.start()
    done = len(clone.uv_calls())
    with open(clone.root / "requirements" / "dev.lock", "a") as lock:
        lock.write("# one more line\n")
    assert "Installing the packages" in clone.start().stderr
    assert len(clone.uv_calls()) == 2 * done


def test_an_environment_of_another_python_is_made_anew(clone: Clone) -> None:
    clone.start()
    other = clone.path / "python3"
    other.unlink()
    program(
        other,
        f"case $* in *version_info*) echo 3.11.0 True {other} ;;\n"
        '*venv*) echo "no venv today" >&2; exit 1 ;; esac',
    )
    (clone.root / ".venv" / "bin" / "python").unlink()
    again = clone.start()
    assert "Creating the environment ... failed" in again.stderr
    assert "SETUP_FAILED" in again.stderr
    assert "no venv today" in again.stderr


def test_a_failed_download_is_explained_and_the_next_start_repairs_it(clone: Clone) -> None:
    clone.set_uv("echo 'error: dns error: failed to lookup address' >&2; exit 2")
    failed = clone.start()
    assert failed.returncode == 3
    assert "SETUP_NO_NETWORK: Installing the packages" in failed.stderr
    assert "failed to lookup address" in failed.stderr
    assert "remedy" in failed.stderr
    clone.set_uv()
    assert clone.start().returncode == 7


def test_a_start_killed_half_way_is_repaired_by_the_next(clone: Clone) -> None:
    # What the step itself has started ends with it.
    clone.set_uv(f"sleep 600 & echo $! >{clone.root}/uv-pid; wait")
    command = ["/bin/bash", str(clone.root / "headwater")]
    with subprocess.Popen(
        command, env=clone.environment(), start_new_session=True, stderr=subprocess.DEVNULL
    ) as first:
        assert wait_until((clone.root / "uv-pid").exists, timeout_s=120)
        os.killpg(first.pid, signal.SIGKILL)
    clone.set_uv()
    second = clone.start()
    assert "Installing the packages" in second.stderr
    assert any("--reinstall" in call for call in clone.uv_calls())
    assert second.returncode == 7
    assert clone.start().stderr == ""


def test_ctrl_c_ends_the_step_that_runs(clone: Clone) -> None:
    clone.set_uv(f"echo $$ >{clone.root}/uv-pid; exec sleep 600")
    command = ["/bin/bash", str(clone.root / "headwater")]
    with subprocess.Popen(
        command, env=clone.environment(), stderr=subprocess.PIPE, text=True
    ) as first:
        assert wait_until((clone.root / "uv-pid").exists, timeout_s=120)
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=120)
    assert first.returncode == 130
    assert "SETUP_INTERRUPTED" in said
    assert "the next ./headwater repairs it" in said
    pid = int((clone.root / "uv-pid").read_text())
    assert wait_until(lambda: mark(pid) is None, timeout_s=120)


@pytest.mark.skipif(shutil.which("flock") is None, reason="this machine has no flock")
def test_two_starts_at_once_set_up_once(clone: Clone) -> None:
    clone.set_uv(f"until [[ -e {clone.root}/go ]]; do sleep 0.05; done")
    command = ["/bin/bash", str(clone.root / "headwater")]
    options = {"env": clone.environment(), "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **options) as first:  # type: ignore[call-overload]
        assert wait_until(lambda: bool(clone.uv_calls()), timeout_s=120)
        with subprocess.Popen(command, **options) as second:  # type: ignore[call-overload]
            assert "waiting for it" in second.stderr.readline()
            (clone.root / "go").touch()
            first.communicate(timeout=120)
            second.communicate(timeout=120)
    assert (first.returncode, second.returncode) == (7, 7)
    assert len([call for call in clone.uv_calls() if call.startswith("pip sync")]) == 1


def test_a_python_that_is_too_old_is_named(clone: Clone) -> None:
    (clone.path / "python3").unlink()
    program(clone.path / "python3", "echo 3.9.2 False /usr/bin/python3.9")
    refused = clone.start()
    assert refused.returncode == 3
    assert "PYTHON_TOO_OLD" in refused.stderr
    assert "python3 is 3.9.2" in refused.stderr
    assert "Python 3.11 or newer" in refused.stderr


def test_a_newer_python_beside_an_old_one_is_taken(clone: Clone) -> None:
    (clone.path / "python3.11").symlink_to((clone.path / "python3").resolve())
    (clone.path / "python3").unlink()
    program(clone.path / "python3", "echo 3.9.2 False /usr/bin/python3.9")
    assert clone.start().returncode == 7


def test_java_is_installed_only_where_none_fits(clone: Clone, tmp_path: Path) -> None:
    fitting = java(tmp_path / "jdk17", "17.0.1")
    assert "Java" not in clone.start(JAVA_HOME=fitting).stderr
    old = java(tmp_path / "jdk11", "11.0.1")
    changed = clone.start(JAVA_HOME=old)
    assert "Installing a Java runtime" in changed.stderr
    assert any(call.endswith("requirements/java.lock") for call in clone.uv_calls())
    assert clone.start(JAVA_HOME=old).stderr == ""


def test_a_folder_of_someone_else_is_never_emptied(clone: Clone, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("precious")
    refused = clone.start(HEADWATER_ENV=str(mine))
    assert refused.returncode == 3
    assert "SETUP_FOLDER_TAKEN" in refused.stderr
    assert (mine / "thesis.txt").read_text() == "precious"


def test_the_build_server_runs_the_tests_and_passes_their_exit_code_on(clone: Clone) -> None:
    shutil.copytree(ROOT / ".ci", clone.root / ".ci")
    (clone.root / "headwater").write_text('#!/bin/bash\necho "$PWD" "$@"\nexit 5\n')
    run = subprocess.run(
        ["/bin/bash", str(clone.root / ".ci" / "run")],
        cwd="/",
        env=clone.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.returncode) == (f"{clone.root.resolve()} test\n", 5)


def test_the_built_wheel_gives_the_same_command_outside_the_repository(tmp_path: Path) -> None:
    wheels, target = tmp_path / "wheels", tmp_path / "installed"
    uv = Path(sys.executable).with_name("uv")
    build = [uv, "build", "--wheel", "--no-build-isolation", "--offline", "-o", wheels, ROOT]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    [wheel] = wheels.glob("headwater-*.whl")
    install = [uv, "pip", "install", "--no-deps", "--offline", "--target", target, wheel]
    subprocess.run([*install, "--python", sys.executable], check=True, capture_output=True)
    # The packages that it needs are those of this environment.
    environment = {**os.environ, "PYTHONPATH": str(target)}
    command = [sys.executable, target / "bin/headwater"]
    where = "import headwater, sys; sys.stdout.write(headwater.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert found.stdout.startswith(str(target))
    done = subprocess.run(
        [*command, "new", "myapp"], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "headwater run" in done.stdout
    own = [path.relative_to(ROOT / "src") for path in (ROOT / "src/headwater").rglob("*")]
    shipped = [path for path in own if path.suffix in (".jar", ".csv", ".js", ".css", ".lock")]
    assert shipped
    assert all((target / path).exists() for path in shipped)
