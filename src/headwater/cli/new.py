"""Make a folder with an application that runs at once: a Python table, a SQL table, a test and
a folder of JSON files to read."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from headwater.cli.exit_codes import ExitCode

SUMMARY = "make a folder with an application that runs at once"

_NAME = re.compile(r"^[a-z](_?[a-z0-9])*$", re.I)
_TEMPLATES = Path(__file__).parent / "templates" / "new"
# Named so that neither an installer nor a tool takes them for the package's own files.
_RENAMED = {
    "gitignore.template": ".gitignore",
    "app.py.template": "app.py",
    "test_app.py.template": "test_app.py",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="NAME", help="the folder to make; also the pipeline")


def run(args: argparse.Namespace) -> int:
    folder = Path(args.folder)
    made = make(folder)
    print(f"{folder}: made {len(made)} files")
    for path in made:
        print(f"  {path}")
    print("next:")
    print(f"  cd {folder}")
    for command, about in _NEXT.items():
        print(f"  {command:<32} # {about}")
    return ExitCode.OK


_NEXT = {
    "headwater plan": "what would run, and with which guarantee",
    "headwater run": "run it until Ctrl-C",
    "headwater show device_minutes": "the rows of a table, in this or another terminal",
    "headwater test": "run its test",
}


def make(folder: Path) -> list[str]:
    """Writes the application into a new or empty folder; returns the files' names."""
    from headwater.errors import FolderTaken, InvalidProjectName

    name = folder.name
    if not _NAME.match(name):
        raise InvalidProjectName(str(folder))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderTaken(str(folder))
    made = []
    for template in sorted(path for path in _TEMPLATES.rglob("*") if path.is_file()):
        inside = template.relative_to(_TEMPLATES)
        target = folder / inside.with_name(_RENAMED.get(inside.name, inside.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(template.read_text().replace("{{name}}", name))
        made.append(str(target.relative_to(folder)))
    return sorted(made)
