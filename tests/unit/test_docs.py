"""The docs name every command, option, setting, error code and public name, and no other."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater import connectors, errors, events, settings
from headwater.cli import main as cli
from headwater.definitions import Trigger
from headwater.pipeline import FunctionHandle, Handle, Pipeline, table_definition
from headwater.runtime.query import Query
from headwater.runtime.running import RunningPipeline
from headwater.runtime.session import spark_settings
from headwater.sql import parse

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
READERS_PAGES = [*PAGES, ROOT / "README.md"]
OTHER_PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "bench" / "README.md"]
EXAMPLES = sorted((ROOT / "examples").rglob("*.md"))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: Path, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    return [text for language, text in found if language in languages]


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def words(text: str) -> set[str]:
    """Identifiers that stand in code, in a line or a block."""
    code = re.findall(r"^```.*?^```|`[^`\n]+`", text, re.M | re.S)
    return {word for part in code for word in re.findall(r"\w+", part)}


def section(page: str, heading: str) -> str:
    """From the first heading that holds the text to the next one of its level or above."""
    text = text_of(page)
    start = re.search(rf"^(#+) [^\n]*{heading}[^\n]*$", text, re.M)
    assert start is not None, f"docs/{page} needs a heading with {heading}"
    end = re.search(rf"^#{{1,{len(start.group(1))}}} ", text[start.end() :], re.M)
    return text[start.start() : start.end() + end.start() if end else len(text)]


# The command line


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return {name: found for group in groups for name, found in group.choices.items()}


def options(parser: argparse.ArgumentParser) -> set[str]:
    own = {option for action in parser._actions for option in action.option_strings}
    return own.union(*(options(inner) for inner in subparsers(parser).values()))


COMMANDS = subparsers(cli._parser([]))
OPTIONS = options(cli._parser([]))
# Of `bench`, which hands its arguments on to the runner in bench/.
HANDED_ON = {"--last"}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_option_of_a_command_is_explained(command: str) -> None:
    page = text_of("reference/cli.md")
    shared = page.split("## headwater ")[0]
    mine = section("reference/cli.md", f"headwater {command}")
    explained = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", shared + mine))
    assert options(COMMANDS[command]) <= explained
    assert all(f"`{action}" in mine for action in subparsers(COMMANDS[command]))


def test_every_command_stands_in_the_list() -> None:
    listed = re.findall(r"^\| \[`(\w+)`\]\(#headwater-(\w+)\)", text_of("reference/cli.md"), re.M)
    assert listed == [(name, name) for name in cli.COMMANDS]


@pytest.mark.parametrize("page", READERS_PAGES, ids=name_of)
def test_no_page_names_an_option_that_does_not_exist(page: Path) -> None:
    code = re.findall(r"`([^`\n]+)`", prose(page))
    named = {found for part in code for found in re.findall(r"(?<![\w-])--[a-z][\w-]*", part)}
    assert named <= OPTIONS | HANDED_ON


def command_lines(page: Path) -> Iterator[str]:
    """What is typed; where a block has prompts, the lines without one are output."""
    for block in blocks(page, "bash", "console", "sh"):
        prompt = r"\$ " if re.search(r"^\$ ", block, re.M) else ""
        for line in re.split(r"\n|&&", block):
            if command := re.match(rf"^\s*{prompt}(?:\./)?headwater (.+)$", line):
                yield command.group(1)


@pytest.mark.parametrize("page", [*READERS_PAGES, *OTHER_PAGES, *EXAMPLES], ids=name_of)
def test_every_command_line_can_be_read(page: Path) -> None:
    for line in command_lines(page):
        assert is_understood(shlex.split(line, comments=True)), f"headwater {line}"


def is_understood(arguments: list[str]) -> bool:
    try:
        cli._parsed(arguments)
    except SystemExit as end:
        return end.code == 0
    return True


def test_every_exit_code_is_explained() -> None:
    from headwater.cli.exit_codes import ExitCode

    for page in ("reference/cli.md", "how-to/stop-and-exit-codes.md"):
        rows = re.findall(r"^\| (\d+) \|", text_of(page), re.M)
        assert [int(code) for code in rows] == [code.value for code in ExitCode]


# Settings


def test_every_key_of_a_profile_is_explained() -> None:
    top = re.findall(r"^\| `(\w+)` \|", section("reference/settings.md", "top of the file"), re.M)
    keys = re.findall(r"^\| `(\w+)` \|", section("reference/settings.md", "of a profile"), re.M)
    assert top == list(settings._TOP)
    assert keys == [*settings._PER_PROFILE, "connections", "spark"]


def test_every_variable_of_ours_is_explained_and_no_other() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), ROOT / "headwater"]
    text = "".join(file.read_text(encoding="utf-8") for file in sources)
    read = set(re.findall(r"HEADWATER_[A-Z_]+[A-Z]", text))
    keys = ("app", "profile", *settings._PER_PROFILE)
    read |= {settings.ENVIRONMENT_PREFIX + key.upper() for key in keys}
    table = section("reference/settings.md", "Environment variables")
    assert set(re.findall(r"`(HEADWATER_\w+)`", table)) == read


def test_every_spark_setting_is_on_the_page_with_its_value() -> None:
    chosen = {s.key: s.value for s in spark_settings(settings.Settings(folder=ROOT))}
    table = section("reference/settings.md", "Spark settings").split("Three more")[0]
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.+?) \|", table, re.M))
    assert list(rows) == list(chosen)
    for key, cell in rows.items():
        if cell.startswith("`"):
            assert cell == f"`{chosen[key]}`"


@pytest.mark.parametrize("page", READERS_PAGES, ids=name_of)
def test_every_settings_file_can_be_loaded(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "toml"):
        (tmp_path / settings.FILE).write_text(block, encoding="utf-8")
        for profile in tomllib.loads(block)["profile"]:
            found = settings.load(tmp_path, flags={"profile": profile}, environment={})
            assert found.profile == profile


# Errors


def error_classes(base: type[errors.HeadwaterError]) -> Iterator[type[errors.HeadwaterError]]:
    yield base
    for found in base.__subclasses__():
        yield from error_classes(found)


CLASSES = {c.__dict__["code"]: c for c in error_classes(errors.HeadwaterError) if "code" in vars(c)}
FROM_SCRIPT = set(re.findall(r"(?:\bfail |\\n)([A-Z]+_[A-Z_]+)", (ROOT / "headwater").read_text()))
# Words that stand in a message without a class of their own.
SPOKEN = {"UNEXPECTED", "REJECTED_RECORD", "BAD_REQUEST"}
VARIABLES = {"JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SSL_CERT_FILE"} | {
    "XDG_CACHE_HOME",
    "HTTPS_PROXY",
}


def test_every_error_code_has_an_entry_and_every_entry_a_code() -> None:
    page = text_of("reference/errors.md")
    entries = re.findall(r"^### `(\w+)`$", page, re.M)
    families = re.findall(r"^\| `([A-Z]+)` \| `\w+` \|", page, re.M)
    assert len(entries) == len(set(entries))
    assert set(entries) | set(families) == set(CLASSES) | FROM_SCRIPT | SPOKEN


@pytest.mark.parametrize("code", sorted(set(CLASSES) - {"HEADWATER", "USAGE"}))
def test_an_entry_shows_the_class_its_exit_code_and_an_example(code: str) -> None:
    found = CLASSES[code]
    page = text_of("reference/errors.md")
    if found.__subclasses__():
        assert f"`{code}` | `{found.__name__}` | {found.exit_code} |" in page
        return
    entry = section("reference/errors.md", f"`{code}`")
    assert f"Class `{found.__name__}`, exit code {found.exit_code}." in entry
    assert re.search(rf"^```text\n.*\b{code}: ", entry, re.M)
    assert "**Remedy.** " in entry


@pytest.mark.parametrize("word", sorted(SPOKEN))
def test_a_code_without_a_class_is_still_spoken(word: str) -> None:
    sources = (file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    assert any(word in text for text in sources)


@pytest.mark.parametrize("page", READERS_PAGES, ids=name_of)
def test_no_page_names_an_error_code_that_does_not_exist(page: Path) -> None:
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", prose(page)))
    named = {word for word in named if not word.startswith("HEADWATER_")}
    assert named <= set(CLASSES) | FROM_SCRIPT | SPOKEN | VARIABLES


# Python


def public(kind: type) -> set[str]:
    return {n for base in kind.__mro__[:-1] for n in vars(base) if not n.startswith("_")}


def parameters(function: object) -> set[str]:
    names = set(inspect.signature(function).parameters)  # type: ignore[arg-type]
    return names - {"self", "function", "arguments", "body", "where"}


def test_every_exported_name_is_explained() -> None:
    known = words(text_of("reference/python.md"))
    assert set(headwater.__all__) <= known
    assert set(connectors.__all__) <= known


KINDS = [Pipeline, Handle, FunctionHandle, Trigger, RunningPipeline, Query]


@pytest.mark.parametrize("kind", KINDS)
def test_every_public_member_is_explained(kind: type) -> None:
    known = words(text_of("reference/python.md"))
    assert public(kind) <= known
    assert kind.__name__ in known


@pytest.mark.parametrize("method", sorted(public(Pipeline) - {"settings"}))
def test_every_argument_of_a_pipelines_method_is_explained(method: str) -> None:
    wanted = parameters(getattr(Pipeline, method))
    if method == "table":
        wanted |= parameters(table_definition)
    assert wanted <= words(section("reference/python.md", "Pipeline"))


@pytest.mark.parametrize("connector", connectors.__all__)
def test_every_parameter_of_a_connector_is_explained(connector: str) -> None:
    mine = section("reference/python.md", rf"`{connector}\(")
    rows = " ".join(re.findall(r"^\| (`.+?) \|", mine, re.M))
    wanted = set(inspect.signature(getattr(connectors, connector)).parameters)
    assert wanted <= set(re.findall(r"`(\w+)`", rows))


def test_every_event_and_its_facts_are_explained() -> None:
    table = section("reference/python.md", "Events")
    kinds = [k for k in vars(events).values() if inspect.isclass(k) and issubclass(k, events.Event)]
    for kind in kinds:
        facts = {field.name for field in dataclasses.fields(kind)}
        row = re.search(rf"^\| `{kind.__name__}` \| (.+) \|$", table, re.M)
        assert kind is events.Event or (row and facts == set(re.findall(r"`(\w+)`", row.group(1))))
    assert {"Event", "Report", "silent", "step"} <= words(table)


@pytest.mark.parametrize("page", READERS_PAGES, ids=name_of)
def test_every_python_snippet_can_be_read(page: Path) -> None:
    for block in blocks(page, "python"):
        compile(block, name_of(page), "exec")


@pytest.mark.parametrize("page", READERS_PAGES, ids=name_of)
def test_every_sql_snippet_can_be_read(page: Path) -> None:
    for block in blocks(page, "sql"):
        assert parse(block, file=name_of(page))


# The pages themselves


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in headings}


@pytest.mark.parametrize("page", [*READERS_PAGES, *OTHER_PAGES, *EXAMPLES], ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", prose(page)):
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{name_of(page)} links to {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{name_of(page)} links to {target}"


def test_the_index_lists_every_page() -> None:
    index = DOCS / "README.md"
    linked = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): .+", index.read_text(encoding="utf-8"), re.M)
    pages = [str(page.relative_to(DOCS)) for page in PAGES if page != index]
    assert sorted(linked) == sorted(pages)


@pytest.mark.parametrize("page", READERS_PAGES, ids=name_of)
def test_no_page_holds_the_paths_of_one_machine_or_a_web_address(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"https?://|(?<!\w)/(?:tmp|root|mnt)/", text)
