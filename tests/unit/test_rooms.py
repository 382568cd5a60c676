"""Imports go downwards only (the order of rooms in docs/contributing)."""

import ast
from pathlib import Path

import headwater

PACKAGE = Path(headwater.__file__).parent
ORDER = [
    {"cli"},
    {"demo"},
    {"verification"},
    {"observe", "testing", "dstream"},
    {"pipeline"},
    {"planning", "learning"},
    {"runtime"},
    {"graph"},
    {"sql"},
    {"connectors", "event_time"},
    {"ledger"},
    {"jvm"},
    {"definitions", "settings", "schemas"},
    {"local", "tokens"},
    {"errors", "events"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    names = []
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "headwater":
            names += [f"headwater.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("headwater.")}


def test_every_room_has_a_place_in_the_order() -> None:
    rooms = {room_of(path) for path in PACKAGE.rglob("*.py")} - {"__init__"}
    assert rooms <= set(RANK)


def test_imports_go_downwards_only() -> None:
    upward = [
        f"{path.relative_to(PACKAGE)} imports {target}"
        for path in PACKAGE.rglob("*.py")
        if (room := room_of(path)) != "__init__"
        for target in imported_rooms(path)
        if target != room and target in RANK and RANK[target] <= RANK[room]
    ]
    assert upward == []


def test_the_dstream_judge_is_never_imported() -> None:
    users = [p.name for p in PACKAGE.rglob("*.py") if "pyspark.streaming" in p.read_text()]
    assert users == []
