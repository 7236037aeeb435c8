"""Run Microsoft's own client for bots, the Agents Playground, on loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.e2e import npm
from tests.e2e.slackserver import free_port

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "var" / "e2e" / "teams"
PACKAGES = (
    "@microsoft/m365agentsplayground@0.2.28",
    "@microsoft/app-manifest@1.1.2",
    "adaptivecards@3.0.6",
    "markdown-it@14.1.0",
)
TEAMS_DARK = """
.ac-adaptiveCard{filter:invert(.88) hue-rotate(180deg)}
.ac-adaptiveCard img{filter:hue-rotate(180deg) invert(1)}
"""
"""Turns light and dark around, as the page has no dark colours; a picture stays as it is, in Teams as well."""
_CLI = "node_modules/@microsoft/m365agentsplayground/cli.js"


def installed() -> Path:
    """Install the npm packages once; return their folder."""
    npm.installed(CACHE, _CLI, PACKAGES)
    return CACHE


@contextlib.contextmanager
def playground(bot_url: str) -> Iterator[str]:
    """Run the client against a bot; give the address of its page."""
    port = free_port()
    command = [
        npm.node(),
        str(installed() / _CLI),
        "start",
        "-e",
        bot_url,
        "-c",
        "msteams",
        "-p",
        str(port),
        "--disable-telemetry",
    ]
    environment = {
        **os.environ,
        "NODE_OPTIONS": f"--require={HERE / 'loopback.cjs'}",
        "BROWSER": "none",
    }
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
