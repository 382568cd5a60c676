"""One Spark session for all tests that need one; it has the settings that users get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from headwater.local.jars import JarSet
    from headwater.runtime.session import open_session
    from headwater.settings import Settings

    settings = Settings(
        folder=tmp_path_factory.mktemp("session"), master="local[2]", driver_memory="1500m"
    )
    session = open_session(settings, [JarSet.DELTA, JarSet.KAFKA, JarSet.POSTGRES])
    yield session
    session.stop()
