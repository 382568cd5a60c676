"""What a session starts with."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.runtime.session import spark_settings
from headwater.settings import Settings


def master_of(settings: Settings) -> str:
    return {one.key: one.value for one in spark_settings(settings)}["spark.master"]


def test_two_tasks_share_a_core_of_this_machine() -> None:
    settings = Settings(folder=Path("/project"))
    assert master_of(settings) == f"local[{2 * settings.cores}]"


@pytest.mark.parametrize("master", ["local[1]", "local[2,4]", "spark://spark-master:7077"])
def test_a_master_that_says_how_many_is_taken_at_its_word(master: str) -> None:
    assert master_of(Settings(folder=Path("/project"), master=master)) == master
