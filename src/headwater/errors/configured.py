"""Settings, connections and secrets."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors.base import (
    EnvironmentProblem,
    Location,
    SettingsError,
    listed,
    nearest,
)


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


class StorageNotAtomic(SettingsError):
    code = "STORAGE_NOT_ATOMIC"

    def __init__(self, storage: str, profile: str, setting: str) -> None:
        super().__init__(
            "the storage is not known to rename a file in one step",
            found=storage,
            expected="a folder or HDFS, which do, or a way to write checkpoints without renaming",
            remedy=f"name the class that writes them, in [profile.{profile}.spark]: {setting}",
            data="nothing was read or written",
        )


class ClusterMissing(EnvironmentProblem):
    """Profile `cluster` is not declared, and no cluster runs on this machine."""

    code = "CLUSTER_MISSING"

    def __init__(self) -> None:
        super().__init__(
            "profile 'cluster' is not declared, and no Spark cluster runs on this machine",
            expected='master = "spark://host:7077" in [profile.cluster] of headwater.toml',
            next_command="headwater services up spark",
        )


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
        is_service = profile == "local" and name in ("kafka", "mariadb", "postgres", "redis")
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
