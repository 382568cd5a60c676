"""The reference page shows every argument and option, and every example on it runs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from headwater.definitions import Definitions
from headwater.errors import SqlSyntax
from headwater.graph import resolve
from headwater.pipeline import Pipeline, table_definition
from headwater.sql import parse
from headwater.sql.options import factories, parameters, spellings

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def arguments(kind: str) -> set[str]:
    function = getattr(Pipeline, kind)
    names = set(inspect.signature(function).parameters) - {"self", "function", "arguments"}
    if kind == "table":
        names |= set(inspect.signature(table_definition).parameters) - {"body", "where"}
    return names


@pytest.mark.parametrize("kind", ["source", "lookup", "view", "table"])
def test_every_argument_has_exactly_one_spelling(kind: str) -> None:
    rows = re.findall(rf"^\| `{kind}` \| `(\w+)` \| .+ \|$", PAGE, re.M)
    assert sorted(rows) == sorted(arguments(kind))


@pytest.mark.parametrize("connector", sorted(factories()))
def test_every_option_of_a_connector_is_on_the_page(connector: str) -> None:
    row = re.search(rf"^\| `{connector}` \| (.+) \|$", PAGE, re.M)
    expected = ", ".join(f"`{s}`" for p in parameters()[connector] for s in spellings(p))
    assert row is not None, f"add to docs/reference/sql.md: | `{connector}` | {expected} |"
    assert row.group(1) == expected


def test_the_examples_are_one_application() -> None:
    found = parse("\n".join(examples("sql")), file="sql.md")
    graph = resolve(Definitions("page", {d.name: d for d in found}))
    assert set(graph.tables) == {
        "raw",
        "device_minutes",
        "site_totals",
        "hot_devices",
        "big_orders",
    }
    assert [d.name for d in graph.reads_directly("site_totals")] == ["signals", "sites"]


def test_the_error_on_the_page_is_the_error_that_is_raised() -> None:
    with pytest.raises(SqlSyntax) as caught:
        parse("\nCREATE STREAMING TABLE t\nTRIGER '1 second' AS TABLE s", file="app.sql")
    assert examples("text") == [f"{caught.value}\n"]
