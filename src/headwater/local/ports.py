"""TCP ports of this machine: which are free, which answer, who holds one."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess

HOST = "127.0.0.1"

# Below the ranges from which Linux (32768) and macOS (49152) take ports for outgoing connections,
# so that a remembered port is still free at the next start.
_RANGE = range(20_000, 30_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # A closed server's connections may linger; the servers we start bind over them as well.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def is_listening(port: int, *, timeout_s: float = 0.5) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=timeout_s).close()
    except OSError:
        return False
    return True


def free_port(*, avoid: frozenset[int] = frozenset()) -> int:
    """A port that is free now, random so that two callers rarely choose the same."""
    for _ in range(1_000):
        port = random.choice(_RANGE)
        if port not in avoid and is_free(port):
            return port
    raise OSError(f"no free port between {_RANGE.start} and {_RANGE.stop}")


def holder(port: int) -> str | None:
    """The process that listens on `port`, as far as this machine's tools can name it."""
    lsof = shutil.which("lsof")
    if lsof is None:
        return None
    command = [lsof, "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except subprocess.TimeoutExpired:
        return None
    facts = {line[0]: line[1:] for line in answer.stdout.splitlines() if line}
    return f"{facts['c']} (process {facts['p']})" if {"c", "p"} <= facts.keys() else None
