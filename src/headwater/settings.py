"""headwater.toml, then the environment, then flags: one frozen `Settings`.

    app = "app.py"

    [profile.local]
    storage = ".headwater"

    [profile.local.connections.kafka]
    bootstrap_servers = "broker:9092"
    password = "env:KAFKA_PASSWORD"

An unknown key is an error that names the nearest right one. A secret is a reference, `env:NAME`
or `file:PATH`; a literal one is an error.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from headwater.errors import (
    ClusterMissing,
    ConnectionMissing,
    InvalidSetting,
    LiteralSecret,
    Location,
    SecretMissing,
    SettingsUnreadable,
    UnknownProfile,
    UnknownSetting,
)
from headwater.local import ports, services

FILE = "headwater.toml"
ENVIRONMENT_PREFIX = "HEADWATER_"
_SECRET = re.compile(r"password|secret|token|passphrase|credential|jaas", re.I)
_SECRET_OF_SPARK = re.compile(
    r"(password|passphrase|secret|\.key|token|jaas\.config)$|\.account\.key\.|client\.secret|\.sas\.",
    re.I,
)
_SECRET_IN_URL = re.compile(r"//[^/@\s:]+:[^/@\s]+@|[?&;]password=", re.I)
_REFERENCES = ("env:", "file:")


@dataclass(frozen=True, slots=True)
class Connection:
    """A named address with its options, and where it came from.

    Values may be references to secrets; they are read at the moment of use and never stored.
    """

    name: str
    options: Mapping[str, str]
    origin: str

    def get(self, option: str) -> str | None:
        value = self.options.get(option)
        return None if value is None else _revealed(value, self.name, option)

    def require(self, option: str) -> str:
        value = self.get(option)
        if value is None:
            raise ConnectionMissing(self.name, option, self.origin)
        return value


_FLAG = "flag"
_FLAGS = ("profile", "storage", "master", "shuffle_partitions", "driver_memory")
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
"""Spark's setting for how the files of a checkpoint are written."""
_RENAMES_AT_ONCE = frozenset({"file", "hdfs", "viewfs", "webhdfs", "abfs", "abfss", "ofs", "o3fs"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is decided outside the definitions.

    `origins` says for each setting whether the file, the environment or a flag gave it.
    """

    folder: Path
    app: str | None = None
    profile: str = "local"
    master: str = "local[*]"
    storage: str = ".headwater"
    shuffle_partitions: int | None = None
    driver_memory: str | None = None
    stop_deadline_s: int = 30
    restarts: int = 5
    lease_s: int = 15
    worker_python: str | None = None
    connections: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def storage_root(self) -> str:
        """The storage as an absolute path or a URI."""
        return (
            self.storage if "://" in self.storage else str((self.folder / self.storage).resolve())
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """What the command line said of them, as words of another one.

        >>> load(Path("/nowhere"), flags={"storage": "hdfs://here/"}).flags
        ('--storage', 'hdfs://here/')
        """
        words: list[str] = []
        for key in _FLAGS:
            if self.origins.get(key) == _FLAG:
                words += [f"--{key.replace('_', '-')}", str(getattr(self, key))]
        return tuple(words)

    @property
    def renames_at_once(self) -> bool:
        """Whether the storage is known to give a file a new name in one step."""
        scheme, has_scheme, _ = self.storage.partition("://")
        return not has_scheme or scheme.lower() in _RENAMES_AT_ONCE

    @property
    def local_folder(self) -> Path:
        """Where this machine keeps locks, logs and services of the project."""
        return (self.folder / ".headwater").resolve()

    @property
    def cores(self) -> int:
        """Cores of a local master; the machine's own for any other."""
        match = re.match(r"local\[(\d+|\*)", self.master)
        if match and match.group(1) != "*":
            return int(match.group(1))
        if self.master == "local":
            return 1
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )

    def connection(self, name: str) -> Connection:
        """The connection of that name: declared in the profile, else the local service."""
        if name in self.connections:
            origin = f"{FILE} [profile.{self.profile}.connections.{name}]"
            return Connection(name, self.connections[name], origin)
        # The cluster of this machine reaches its services as well.
        is_here = self.profile == "local" or self.master.startswith(f"spark://{ports.HOST}:")
        is_local_service = is_here and name in services.SERVICES
        if is_local_service and (running := services.connection(self.local_folder, name)):
            return Connection(name, running, f"headwater services up {name}")
        raise ConnectionMissing(name, profile=self.profile)

    def without_secrets(self, text: str) -> str:
        """What another system said, without the secrets of the connections."""
        here = {name: services.connection(self.local_folder, name) for name in services.SERVICES}
        for options in (*self.connections.values(), *here.values()):
            for value in (options or {}).values():
                secret = _known_secret(value)
                if secret:
                    text = text.replace(secret, "(not shown)")
        return text


_PER_PROFILE = (
    "master",
    "storage",
    "shuffle_partitions",
    "driver_memory",
    "stop_deadline_s",
    "restarts",
    "lease_s",
    "worker_python",
)
_MAY_BE_ZERO = ("restarts",)
_TOP = ("app", "profile")
_VARIABLES_OF_SETUP = (
    "ENV",
    "CACHE",
    "CLASS_ARCHIVE",
    "CLASS_ARCHIVE_INTO",
    "IVY_SETTINGS",
    "SUPERVISOR_PID",
)
_KINDS: dict[str, type] = {f.name: int for f in fields(Settings) if "int" in str(f.type)}


def load(
    folder: Path | None = None,
    *,
    flags: Mapping[str, str | int | None] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """The settings of the project in `folder` (default: the working folder).

    >>> load(Path("/nowhere")).master
    'local[*]'
    """
    folder = Path.cwd() if folder is None else folder
    environment = os.environ if environment is None else environment
    _known_variables(environment)
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    document = _document(folder / FILE)
    profile, origin = _profile_name(document, environment, given)
    values: dict[str, Any] = {"profile": profile}
    origins = {"profile": origin}
    if "app" in document:
        values["app"], origins["app"] = document["app"], FILE
    section = _profile(document, profile, folder / FILE)
    for key in _PER_PROFILE:
        if key in section:
            values[key], origins[key] = section[key], f"{FILE} [profile.{profile}]"
    for key in (*_PER_PROFILE, "app"):
        variable = ENVIRONMENT_PREFIX + key.upper()
        if variable in environment:
            values[key], origins[key] = environment[variable], f"environment {variable}"
        if key in given:
            values[key], origins[key] = given[key], _FLAG
    if profile == "cluster" and not section and "master" not in values:
        found = services.connection((folder / ".headwater").resolve(), "spark")
        if not found:
            raise ClusterMissing()
        values["master"], origins["master"] = found["master"], "headwater services up spark"
    values = {key: _typed(key, value, origins[key]) for key, value in values.items()}
    return Settings(
        folder=folder.resolve(),
        connections=_connections(section, profile, folder),
        spark=_spark(section, profile, folder),
        origins=origins,
        **values,
    )


def _document(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        document = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as problem:
        raise SettingsUnreadable(str(path), str(problem)) from problem
    _known(document, (*_TOP, "profile"), path, "")
    return document


def _profile_name(
    document: dict[str, Any], environment: Mapping[str, str], given: Mapping[str, Any]
) -> tuple[str, str]:
    if "profile" in given:
        return str(given["profile"]), _FLAG
    variable = ENVIRONMENT_PREFIX + "PROFILE"
    if variable in environment:
        return environment[variable], f"environment {variable}"
    return "local", "default"


def _profile(document: dict[str, Any], profile: str, path: Path) -> dict[str, Any]:
    profiles = document.get("profile", {})
    if not isinstance(profiles, dict):
        raise InvalidSetting("profile", profiles, "tables such as [profile.local]", FILE)
    for name, section in profiles.items():
        _known(section, (*_PER_PROFILE, "connections", "spark"), path, f"profile.{name}.")
    if profile not in profiles and profile not in ("local", "cluster"):
        raise UnknownProfile(profile, [*profiles, "local"])
    return dict(profiles.get(profile, {}))


def _known(section: Any, keys: tuple[str, ...], path: Path, prefix: str) -> None:
    if not isinstance(section, dict):
        raise InvalidSetting(prefix.rstrip("."), section, "a table of settings", FILE)
    for key in section:
        if key not in keys:
            raise UnknownSetting(prefix + key, keys, where=_line_of(path, key))


def _line_of(path: Path, key: str) -> Location:
    pattern = re.compile(rf"^\s*(\[.*\b{re.escape(key)}\b.*\]|\"?{re.escape(key)}\"?\s*=)")
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if pattern.match(line):
            return Location(str(path), number)
    return Location(str(path), 1)


def _known_variables(environment: Mapping[str, str]) -> None:
    """A variable with our prefix that nothing reads is a slip of the pen."""
    known = {*(key.upper() for key in (*_PER_PROFILE, *_TOP)), *_VARIABLES_OF_SETUP}
    for variable in environment:
        key = variable.removeprefix(ENVIRONMENT_PREFIX)
        if key != variable and key not in known:
            raise UnknownSetting(variable, [ENVIRONMENT_PREFIX + name for name in known])


def _connections(section: dict[str, Any], profile: str, folder: Path) -> dict[str, dict[str, str]]:
    connections: dict[str, dict[str, str]] = {}
    for name, options in section.get("connections", {}).items():
        if not isinstance(options, dict):
            raise InvalidSetting(f"connections.{name}", options, "a table of options", FILE)
        for option, value in options.items():
            is_secret = _SECRET.search(option) or _SECRET_IN_URL.search(str(value))
            if is_secret and not str(value).startswith(_REFERENCES):
                raise LiteralSecret(f"profile.{profile}.connections.{name}.{option}")
        connections[name] = {key: _anchored(str(value), folder) for key, value in options.items()}
    return connections


def _spark(section: dict[str, Any], profile: str, folder: Path) -> dict[str, str]:
    """Spark's own settings; a secret among them is a reference, as in a connection."""
    found: dict[str, str] = {}
    for key, value in section.get("spark", {}).items():
        text = str(value)
        if is_secret_of_spark(key):
            if not text.startswith(_REFERENCES):
                raise LiteralSecret(f"profile.{profile}.spark.{key}")
            text = _anchored(text, folder)
        found[str(key)] = text
    return found


def revealed_of_spark(key: str, value: str, profile: str) -> str:
    """The value of a setting of Spark; of a secret, what its reference leads to now."""
    if not is_secret_of_spark(key):
        return value
    return _revealed(value, f"profile.{profile}.spark", key)


def is_secret_of_spark(key: str) -> bool:
    """
    >>> is_secret_of_spark("spark.hadoop.fs.s3a.secret.key")
    True
    >>> is_secret_of_spark("spark.hadoop.fs.s3a.aws.credentials.provider")
    False
    """
    return _SECRET_OF_SPARK.search(key) is not None


def _anchored(value: str, folder: Path) -> str:
    """A secret's file is found from the project's folder, wherever the command stands."""
    return f"file:{folder.resolve() / value[5:]}" if value.startswith("file:") else value


def _typed(key: str, value: Any, origin: str) -> Any:
    if key not in _KINDS:
        if not isinstance(value, str):
            raise InvalidSetting(key, value, "a text", origin)
        return value
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise InvalidSetting(key, value, "a whole number", origin) from None
    least = 0 if key in _MAY_BE_ZERO else 1
    if isinstance(value, bool) or number < least:
        expected = "a whole number, zero or more" if least == 0 else "a whole number above zero"
        raise InvalidSetting(key, value, expected, origin)
    return number


def _known_secret(value: str) -> str | None:
    """What a reference leads to; None where it leads nowhere, or the value is no reference."""
    if not value.startswith(_REFERENCES):
        return None
    try:
        return _revealed(value, "", "")
    except (SecretMissing, OSError):
        return None


def _revealed(value: str, connection: str, option: str) -> str:
    if value.startswith("env:"):
        found = os.environ.get(value[4:])
        if found is None:
            raise SecretMissing(connection, option, value)
        return found
    if value.startswith("file:"):
        path = Path(value[5:])
        if not path.is_file():
            raise SecretMissing(connection, option, value)
        return path.read_text().strip()
    return value
