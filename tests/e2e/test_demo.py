"""The demo: killed in the midst, started again on the surviving broker, ended by Ctrl-C after a
retraining; the proof holds, the findings are judged and nothing is left running."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.local import services
from headwater.local.services import ServiceHealth

pytestmark = pytest.mark.timeout(1200)
OPTIONS = ("--for", "600s", "--rate", "300", "--devices", "60")


def test_a_demo_after_a_crash_proves_its_counts(tmp_path: Path, start: Callable[..., Any]) -> None:
    killed = start("demo", *OPTIONS)
    killed.until("first rows of raw:")
    killed.end(signal.SIGKILL)
    assert {service.health for service in services.status(tmp_path / ".headwater")} == {
        ServiceHealth.RUNNING
    }

    demo = start("demo", *OPTIONS)
    demo.until("first rows of raw:")
    demo.until("baseline: version 1 used from the next batch on")
    # A retraining that was better than the version in use.
    demo.until("used from the next batch on: score")
    assert "Starting the Kafka broker" not in demo.output
    assert demo.end(signal.SIGINT) == 0, demo.output
    assert "0 missing, 0 twice, 0 unknown" in demo.output
    assert "holds: nothing is missing, nothing is there twice" in demo.output
    assert re.search(r"readings counted, \d+ late ones kept aside", demo.output)
    assert "had version 1 stayed" in demo.output
    assert re.search(r"findings since version \d+, by the truth in", demo.output)
    assert {service.health for service in services.status(tmp_path / ".headwater")} == {
        ServiceHealth.STOPPED
    }
