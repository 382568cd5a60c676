"""One Spark session for all tests that need one, with the settings that users get; the order of
the files."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.cli.app import Application
    from headwater.settings import Connection

# Short runs of much code do not repay the second compiler; the JVMs that tests start go without it.
# The 48 MB for compiled code that they would have are full after minutes.
_FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
os.environ.setdefault("JAVA_TOOL_OPTIONS", _FIRST_COMPILER_ONLY)

# What a shell starts in the background ignores Ctrl-C, and so would all that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

EXAMPLES = Path(__file__).parents[1] / "examples"
LONGEST = (
    "e2e/test_crash_matrix.py",
    "e2e/test_cluster.py",
    "e2e/test_cli.py",
    "e2e/test_dstream.py",
    "e2e/test_demo.py",
    "e2e/test_hdfs.py",
    "e2e/test_five_ways.py",
    "e2e/test_soak.py",
    "e2e/test_high_availability.py",
    "e2e/test_console.py",
    "spark/dstream/test_against_spark.py",
    "spark/verification/test_verify.py",
    "spark/test_docs.py",
    "spark/planning/test_modes.py",
    "spark/runtime/test_running.py",
    "spark/dstream/test_recovery.py",
    "spark/dstream/test_context.py",
    "spark/dstream/test_programs.py",
    "spark/event_time/test_late.py",
    "spark/planning/test_triggers.py",
)
"""Files that take minutes: begun first, so that no process is left alone with one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {str(Path(__file__).parent / name): rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(str(item.path), len(ranks)))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from headwater.local.jars import JarSet
    from headwater.runtime.session import open_session
    from headwater.settings import Settings

    settings = Settings(
        folder=tmp_path_factory.mktemp("session"), master="local[2]", driver_memory="2500m"
    )
    with pytest.MonkeyPatch.context() as patch:
        if os.environ["JAVA_TOOL_OPTIONS"] == _FIRST_COMPILER_ONLY:
            # The session of all tests runs for many minutes.
            patch.delenv("JAVA_TOOL_OPTIONS")
        jars = (JarSet.DELTA, JarSet.KAFKA, JarSet.POSTGRES, JarSet.MARIADB)
        session = open_session(settings, jars)
    yield session
    session.stop()


@pytest.fixture
def example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Application]]:
    """Loads an example as the command line would, from a copy; its modules can be imported."""
    from headwater.cli.app import load_app

    def load(
        name: str, copy: str = "", *, app: str = "app.py", connection: Connection | None = None
    ) -> Application:
        folder = tmp_path / (copy or name)
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns(".headwater"))
        found = load_app(str(folder / app))
        if connection is not None:
            connections = {connection.name: connection.options}
            found.pipeline.use_settings(replace(found.settings, connections=connections))
        return found

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    yield load
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
