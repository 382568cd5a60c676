"""Make a folder with an application that runs at once: its tables, a test, and JSON files to read.

headwater new myapp                        device signals, in Python and SQL
headwater new myapp --template fraud       card payments: a rule and a score for each
headwater new myapp --template vitals      patients: sessions, and alerts by timers
headwater new myapp --template inventory   running stock from deliveries and sales
headwater new myapp --template ads         impressions joined with clicks
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from headwater.cli.exit_codes import ExitCode

SUMMARY = "make a folder with an application that runs at once"

_NAME = re.compile(r"^[a-z](_?[a-z0-9])*$", re.I)
_TEMPLATES = Path(__file__).parent / "templates"
_FIRST_TABLE = {
    "signals": "device_minutes",
    "fraud": "suspicious",
    "vitals": "alerts",
    "inventory": "stock",
    "ads": "billed",
}
TEMPLATES = tuple(_FIRST_TABLE)
_SHARED = ("gitignore.template", "headwater.toml")
# Named so that neither an installer nor a tool takes them for the package's own files.
_RENAMED = {
    "gitignore.template": ".gitignore",
    "app.py.template": "app.py",
    "test_app.py.template": "test_app.py",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="NAME", help="the folder to make; also the pipeline")
    parser.add_argument(
        "--template", choices=TEMPLATES, default="signals", help="which one (default: signals)"
    )


def run(args: argparse.Namespace) -> int:
    folder = Path(args.folder)
    made = make(folder, template=args.template)
    print(f"{folder}: made {len(made)} files")
    for path in made:
        print(f"  {path}")
    print("next:")
    print(f"  cd {folder}")
    for command, about in _next(_FIRST_TABLE[args.template]).items():
        print(f"  {command:<32} # {about}")
    return ExitCode.OK


def _next(table: str) -> dict[str, str]:
    return {
        "headwater plan": "what would run, and with which guarantee",
        "headwater run": "run it until Ctrl-C",
        f"headwater show {table}": "the rows of a table, in this or another terminal",
        "headwater test": "run its test",
    }


def make(folder: Path, *, template: str = "signals") -> list[str]:
    """Writes the application into a new or empty folder; returns the files' names."""
    from headwater.errors import FolderTaken, InvalidProjectName

    name = folder.name
    if not _NAME.match(name):
        raise InvalidProjectName(str(folder))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderTaken(str(folder))
    made = []
    for inside, origin in sorted(_files(template).items()):
        target = folder / inside.with_name(_RENAMED.get(inside.name, inside.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(origin.read_text().replace("{{name}}", name))
        made.append(str(target.relative_to(folder)))
    return sorted(made)


def _files(template: str) -> dict[Path, Path]:
    """The files of a template by their place in the application's folder."""
    first = _TEMPLATES / "new"
    if template == "signals":
        return {path.relative_to(first): path for path in first.rglob("*") if path.is_file()}
    own = _TEMPLATES / "gallery" / template
    found = {path.relative_to(own): path for path in own.rglob("*") if path.is_file()}
    return found | {Path(name): first / name for name in _SHARED}
