"""The fixture `harness`; pytest finds it because the package is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headwater.pipeline import Pipeline
    from headwater.testing.harness import Harness


@pytest.fixture
def harness(request: pytest.FixtureRequest) -> Callable[..., Harness]:
    """`harness(pipeline, …)` is a `headwater.testing.Harness` on the tests' one Spark session: the
    fixture `spark` where the project has one, else the active session, else a new one."""
    from headwater.testing.harness import Harness

    def make(pipeline: Pipeline, **options: Any) -> Harness:
        if "spark" not in options and _has_fixture(request, "spark"):
            options["spark"] = request.getfixturevalue("spark")
        return Harness(pipeline, **options)

    return make


def _has_fixture(request: pytest.FixtureRequest, name: str) -> bool:
    manager = request.session._fixturemanager
    return bool(manager.getfixturedefs(name, request.node))
