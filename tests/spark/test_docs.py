"""Every Python snippet of the docs runs; those of one page share one namespace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    page
    for page in [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]
    if "```python\n" in page.read_text(encoding="utf-8")
]

SAMPLES = {
    "data/1.json": """\
{"device": "a", "at": "2026-01-01T12:00:10Z", "celsius": 21.5}
{"device": "b", "at": "2026-01-01T12:00:20Z", "celsius": 31.0}
{"device": "a", "at": "2026-01-01T12:00:40Z", "celsius": 22.5}
{"device": "c", "at": "2026-01-01T12:00:55Z", "celsius": 28.0}
""",
    "data/2.json": """\
{"device": "a", "at": "2026-01-01T12:01:05Z", "celsius": 30.5}
{"device": "b", "at": "2026-01-01T12:01:15Z", "celsius": 33.0}
{"device": "b", "at": "2026-01-01T12:00:50Z", "celsius": 32.0}
{"device": "c", "at": "2026-01-01T12:01:30Z", "celsius": 29.0}
""",
    "sites.csv": "device,site\na,Graz\nb,Linz\n",
    "orders.log": "ada 12.5\nbob 3\nada 20\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder with the input that the pages speak of."""
    for name, text in SAMPLES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def snippets(page: Path) -> list[tuple[int, str]]:
    """The page's Python with the line on which each piece begins."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)
    return [(text[: match.start(1)].count("\n"), match.group(1)) for match in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_snippet_runs(page: Path, spark: SparkSession, folder: Path) -> None:
    # Named as a script is: workers then get its classes by value, not by import.
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for line, text in snippets(page):
        # Blank lines bring the page's own line numbers into a failure.
        exec(compile("\n" * line + text, str(page), "exec"), namespace)
