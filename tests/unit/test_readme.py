"""What the README shows is true."""

import re
from pathlib import Path

from headwater import sql
from headwater.definitions import Definitions

README = (Path(__file__).parents[2] / "README.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.S)
    assert found
    return found.group(1)


def test_the_python_and_the_sql_example_declare_the_same() -> None:
    namespace: dict[str, object] = {}
    exec(block("python"), namespace)
    in_python: Definitions = namespace["iot"].definitions()  # type: ignore[attr-defined]
    in_sql = {d.name: d for d in sql.parse(block("sql"), file="README.md")}
    assert in_python.by_name == in_sql


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 100
