"""The page on DStreams lists every method of Spark's own classes, and Headwater has each."""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from headwater import dstream
from headwater.dstream.checking import NOTES

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "dstream.md"
CLASSES = ["StreamingContext", "DStream", "StreamingListener"]


def judge(name: str) -> type[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyspark.streaming as judges

        found: type[Any] = getattr(judges, name)
    return found


def public(owner: type[Any]) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_") and name != "Java"}


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_of_spark_is_there_with_its_parameters(name: str) -> None:
    ours, theirs = getattr(dstream, name), judge(name)
    missing = public(theirs) - public(ours)
    assert missing == set()
    for method in public(theirs):
        if not callable(getattr(theirs, method)):
            continue
        wanted = list(inspect.signature(getattr(theirs, method)).parameters)
        found = list(inspect.signature(getattr(ours, method)).parameters)
        if name != "StreamingListener":
            assert found[: len(wanted)] == wanted, method


@pytest.mark.parametrize("name", CLASSES)
def test_the_page_lists_every_method(name: str) -> None:
    text = PAGE.read_text()
    part = text.split(f"## {name}", 1)[1].split("\n## ", 1)[0]
    listed = set(re.findall(r"^\| `(\w+)` \|", part, re.M))
    assert public(judge(name)) <= listed
    assert listed <= public(getattr(dstream, name))
    for method in listed & set(NOTES):
        assert NOTES[method] in part
