"""Every template of `headwater new` passes the test that it brings, and its data is read."""

from __future__ import annotations

import runpy
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.cli.app import load_app
from headwater.cli.new import TEMPLATES, make

RINGS = defaultdict(set, vitals={"alerts"})
"""Tables that a timer fills: in a batch run none rings."""


@pytest.mark.parametrize("template", sorted(set(TEMPLATES) - {"signals"}))
def test_a_template_passes_its_own_test(
    template: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harness: Callable[..., Any],
    spark: SparkSession,
) -> None:
    folder = tmp_path / f"my_{template}"
    make(folder, template=template)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, "app", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    tests = runpy.run_path(str(folder / "tests/test_app.py"))
    for name, test in tests.items():
        if name.startswith("test_"):
            test(harness)
    monkeypatch.delitem(sys.modules, "app", raising=False)
    tables = load_app(str(folder / "app.py")).pipeline.batch()
    empty = {name for name, frame in tables.items() if frame.isEmpty()}
    assert empty == {name for name in tables if name.endswith("__rejected")} | RINGS[template]
    monkeypatch.delitem(sys.modules, "app", raising=False)
