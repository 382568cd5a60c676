"""The shape of every error: a code, facts, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Location:
    """The user's file and line that a definition or an error speaks of."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Position(Location):
    """A place in SQL text, down to the column."""

    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` most likely meant, or None where nothing is close."""
    close = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.5)
    return close[0] if close else None


def listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


class HeadwaterError(Exception):
    """Base of all errors. Subclasses take facts and word the message."""

    code: ClassVar[str] = "HEADWATER"
    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        what: str,
        *,
        where: Location | None = None,
        found: str | None = None,
        expected: str | None = None,
        remedy: str | None = None,
        data: str | None = None,
        next_command: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.found = found
        self.expected = expected
        self.remedy = remedy
        self.data = data
        self.next_command = next_command

    def __str__(self) -> str:
        head = f"{self.where}: " if self.where else ""
        lines = [f"{head}{self.code}: {self.what}"]
        facts = {
            "found": self.found,
            "expected": self.expected,
            "remedy": self.remedy,
            "data": self.data,
            "next": self.next_command,
        }
        for label, fact in facts.items():
            if fact:
                indented = fact.replace("\n", "\n" + " " * 12)
                lines.append(f"  {label:<9} {indented}")
        return "\n".join(lines)


class UsageError(HeadwaterError):
    code = "USAGE"
    exit_code = 2


class SettingsError(UsageError):
    code = "SETTINGS"


class DefinitionError(UsageError):
    code = "DEFINITION"


class EnvironmentProblem(HeadwaterError):
    code = "ENVIRONMENT"
    exit_code = 3


class QueryError(HeadwaterError):
    code = "QUERY"
