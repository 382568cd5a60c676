"""Every error that Headwater raises, each with a code that the documentation explains.

    HeadwaterError
    ├── UsageError                exit code 2: the command, a setting or a definition is wrong
    │   ├── SettingsError
    │   └── DefinitionError       carries the user's file and line
    ├── EnvironmentProblem        exit code 3: the machine, a service or a connection is not ready
    └── QueryError                exit code 1: a query failed while it ran

An error is built from facts. Its text says where, what was found, what was expected, the remedy,
what happened to the data and the next command, as far as each applies.
"""

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
