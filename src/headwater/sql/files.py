"""Files of SQL statements as declarations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headwater.definitions import Definition
from headwater.errors import DuplicateName, NoPipeline, Position
from headwater.sql.cursor import Cursor, cut
from headwater.sql.statements import statement
from headwater.tokens import statements


def parse(text: str, *, file: str) -> list[Definition]:
    """The declarations of a file of statements separated by `;`, in their order.

    >>> [d] = parse("CREATE VIEW v AS SELECT * FROM signals", file="app.sql")
    >>> d.name, str(d.location)
    ('v', 'app.sql:1')

    Raises the first error with its file, line and column.
    """
    groups = statements(cut(text, where=Position(file, 1, 1)))
    found = [statement(Cursor(group, file=file), text) for group in groups]
    _no_name_twice(found)
    return found


def parse_folder(folder: Path) -> list[Definition]:
    """The declarations of every `.sql` file of a folder, files in sorted order: an application
    of its own, without a line of Python."""
    files = sorted(folder.glob("*.sql"))
    if not files:
        raise NoPipeline(str(folder))
    found = [d for file in files for d in parse(file.read_text(encoding="utf-8"), file=str(file))]
    _no_name_twice(found)
    return found


def _no_name_twice(definitions: Iterable[Definition]) -> None:
    first: dict[str, Definition] = {}
    for definition in definitions:
        if definition.name in first:
            earlier = first[definition.name].location
            raise DuplicateName(definition.name, earlier, where=definition.location)
        first[definition.name] = definition
