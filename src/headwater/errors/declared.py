"""What a user declared, in Python or SQL, is wrong."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors.base import (
    DefinitionError,
    Location,
    UsageError,
    listed,
    nearest,
)


class UnknownChoice(DefinitionError):
    """A word that is none of the words allowed there."""

    code = "UNKNOWN_CHOICE"

    def __init__(
        self, what: str, found: str, choices: Iterable[str], *, where: Location | None = None
    ) -> None:
        choices = list(choices)
        close = nearest(found, choices)
        super().__init__(
            f"{what} {found!r} is not known",
            where=where,
            expected=f"one of: {listed(choices)}",
            remedy=f"did you mean {close!r}?" if close else None,
        )


class InvalidDuration(DefinitionError):
    code = "INVALID_DURATION"

    def __init__(self, what: str, found: object, *, where: Location | None = None) -> None:
        super().__init__(
            f"{what} {found!r} is not a duration",
            where=where,
            expected='a number and a unit, such as "10 minutes" or "500 ms"',
        )


class InvalidLimit(DefinitionError):
    code = "INVALID_LIMIT"

    def __init__(self, found: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"max_per_batch {found!r} is not an amount",
            where=where,
            expected='a number of rows, files or bytes, such as 100000, "50 files" or "64 MB"',
        )


class InvalidName(DefinitionError):
    code = "INVALID_NAME"

    def __init__(self, kind: str, name: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"{name!r} cannot name a {kind}",
            where=where,
            expected="letters, digits and single underscores, beginning with a letter; "
            "a double underscore is kept for tables that Headwater makes",
        )


class DuplicateName(DefinitionError):
    code = "DUPLICATE_NAME"

    def __init__(self, name: str, first: Location, *, where: Location | None = None) -> None:
        super().__init__(
            f"{name!r} is declared twice",
            where=where,
            found=f"the first declaration is at {first}",
            remedy="rename one of them",
        )


class InvalidModel(DefinitionError):
    """A model that could never be trained as it is declared."""

    code = "INVALID_MODEL"

    def __init__(
        self, model: str, problem: str, remedy: str, *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"model {model!r} cannot be trained", where=where, found=problem, remedy=remedy
        )


class ModelDoesNotFit(UsageError):
    """A version of a model that cannot score the rows it is given."""

    code = "MODEL_DOES_NOT_FIT"

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(
            f"{what} cannot score these rows",
            found=problem,
            expected="a model of Spark ML that gives the columns of `adds`, as the function got it",
            remedy="correct the function or `adds`, or go back to the version before",
            data="no batch was written with it",
            next_command="headwater model rollback MODEL",
        )


class UnknownInput(DefinitionError):
    code = "UNKNOWN_INPUT"

    def __init__(
        self, reader: str, missing: str, names: Iterable[str], *, where: Location | None = None
    ) -> None:
        names = list(names)
        close = nearest(missing, names)
        super().__init__(
            f"{reader} reads {missing!r}, which is not declared",
            where=where,
            expected=f"one of: {listed(names)}",
            remedy=f"did you mean {close!r}?"
            if close
            else f'declare it, or say reads={{"{missing}": NAME}}',
            data="nothing was read or written",
        )


class CyclicReads(DefinitionError):
    code = "CYCLE"

    def __init__(self, cycle: list[str], *, where: Location | None = None) -> None:
        super().__init__(
            "tables or views read each other in a circle",
            where=where,
            found=" -> ".join(cycle),
            remedy="take one of these reads out",
        )


class SharedSink(DefinitionError):
    code = "SHARED_SINK"

    def __init__(
        self, first: str, second: str, sink: str, *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"tables {first!r} and {second!r} write to the same place",
            where=where,
            found=sink,
            remedy="give each table a sink of its own, or union the two in one table",
            data="nothing was read or written",
        )


class SchemaMissing(DefinitionError):
    code = "SCHEMA_MISSING"

    def __init__(self, name: str, system: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"source {name!r} reads {system} without a schema",
            where=where,
            expected="the columns and types of its records",
            remedy=f'add schema="column type, …" to {name!r}',
        )


class InvalidSchema(DefinitionError):
    code = "INVALID_SCHEMA"

    def __init__(
        self, name: str, found: str, reason: str, *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"the schema of {name!r} cannot be read: {reason}",
            where=where,
            found=found,
            expected='columns and types, such as "device string, at timestamp, celsius double"',
        )


class EventTimeMissing(DefinitionError):
    code = "EVENT_TIME_MISSING"

    def __init__(self, name: str, problem: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"source {name!r}: {problem}",
            where=where,
            remedy='name a timestamp column of the schema: event_time="at", watermark="10 minutes"',
        )


class NotADataFrame(DefinitionError):
    code = "NOT_A_DATAFRAME"

    def __init__(self, kind: str, name: str, found: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"the function of {kind} {name!r} did not return a DataFrame",
            where=where,
            found=f"it returned {found}",
            remedy="end the function with `return <DataFrame>`",
            data="nothing was read or written",
        )


class FunctionFailed(DefinitionError):
    """The user's function raised while its DataFrame was built; the cause is the user's own."""

    code = "FUNCTION_FAILED"

    def __init__(
        self, kind: str, name: str, cause: BaseException, *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"the function of {kind} {name!r} raised {type(cause).__name__}",
            where=where,
            found=str(cause).split("\n\nJVM stacktrace", 1)[0].strip() or repr(cause),
            data="nothing was read or written",
        )


class UnknownOption(DefinitionError):
    code = "UNKNOWN_OPTION"

    def __init__(
        self, what: str, found: str, options: Iterable[str], *, where: Location | None = None
    ) -> None:
        options = list(options)
        close = nearest(found, options)
        super().__init__(
            f"{what} has no option {found!r}",
            where=where,
            expected=f"one of: {listed(options)}",
            remedy=f"did you mean {close!r}?" if close else None,
        )


class SqlSyntax(DefinitionError):
    """SQL text that is not a statement we know; `close` is the keyword that was likely meant."""

    code = "SQL_SYNTAX"

    def __init__(
        self,
        what: str,
        *,
        where: Location | None,
        found: str | None = None,
        expected: str | None = None,
        close: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(
            what,
            where=where,
            found=found,
            expected=expected,
            remedy=f"did you mean {close}?" if close else remedy,
        )


class InvalidOption(DefinitionError):
    code = "INVALID_OPTION"

    def __init__(
        self, what: str, option: str, found: str, expected: str, *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"option {option!r} of {what} cannot be {found}", where=where, expected=expected
        )


class OptionMissing(DefinitionError):
    code = "OPTION_MISSING"

    def __init__(
        self, what: str, option: str, example: str, *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"{what} needs the option {option!r}",
            where=where,
            remedy=f"add OPTIONS ({example})",
        )


class NoTables(DefinitionError):
    code = "NO_TABLES"

    def __init__(self, pipeline: str) -> None:
        super().__init__(
            f"pipeline {pipeline!r} declares no table, so there is nothing to run",
            remedy="decorate a function with @pipeline.table, or add a CREATE STREAMING TABLE",
        )


class KeyEmpty(DefinitionError):
    code = "KEY_EMPTY"

    def __init__(self, table: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"the key of table {table!r} holds an empty column name",
            where=where,
            expected='column names, such as key=["device", "minute"]',
        )
