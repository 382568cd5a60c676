"""Chromium for the tests of the console: found on this machine, or installed by its own means."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from headwater.local.cache import alone_in, cache_folder

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_INSTALL_S = 600


def chromium(playwrights_own: str) -> str:
    """The path of a Chromium; raises LookupError where none can be had.

    In order: one on PATH, the one that Playwright installed, one that Playwright installs now, and
    on Debian and its kin, as root, the distribution's package.
    """
    tried = []
    for install in (None, _by_playwright, _by_apt):
        if install is not None:
            tried.append(install())
        found = next(filter(None, map(shutil.which, NAMES)), None)
        if found is not None:
            return found
        if Path(playwrights_own).exists():
            return playwrights_own
    raise LookupError("\n".join(["no Chromium on PATH, and none could be installed:", *tried]))


def _by_playwright() -> str:
    return _run([sys.executable, "-m", "playwright", "install", "chromium"])


def _by_apt() -> str:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "apt-get: not root, or no Debian; install the package chromium"
    # Another test may be fetching MariaDB's packages.
    with alone_in(cache_folder()):
        _run(["apt-get", "update"])
        return _run(["apt-get", "install", "-y", "--no-install-recommends", "chromium"])


def _run(command: list[str]) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_INSTALL_S, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"{' '.join(command)}: {problem}"
    last = (done.stderr or done.stdout).strip().splitlines()[-1:]
    return f"{' '.join(command)}: exit {done.returncode} {''.join(last)}"
