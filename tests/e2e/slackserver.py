"""Run a real Slack server on loopback: local-slack (npm), with its web page and its `/_control` API."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import randrange
from typing import Any

import aiohttp
import pytest
import yaml

from tests.e2e import npm
from tests.e2e.slackpage import BEGINS_WITH

PACKAGE = "local-slack-linux-x64@0.1.8"
CACHE = Path(__file__).parents[2] / "var" / "e2e"
BINARY = "node_modules/local-slack-linux-x64/bin/local-slack"
BOT_TOKEN, APP_TOKEN, SECRET = "xoxb-test-token", "xapp-test-token", "test-signing-secret"
ALICE, BOB, GENERAL, FINANCE = "U01ALICE", "U02BOB", "C01GEN", "C02FIN"
_PRELOAD = f"""{BEGINS_WITH}
const serve = Bun.serve;
const served = fetch => async (...asked) => {{
  const answer = await fetch(...asked);
  if (!answer?.headers.get("content-type")?.startsWith("text/html")) return answer;
  return new Response(asSlackBegins(await answer.text()), {{ status: answer.status, headers: {{ "content-type": "text/html" }} }});
}};
Bun.serve = options => serve({{ ...options, fetch: served(options.fetch), hostname: "127.0.0.1" }});
"""
"""Runs in the server before it starts: it binds loopback, and its page does what Slack's does."""


@dataclass(frozen=True)
class SlackServer:
    """Hold where the server listens; drive it as its people do."""

    url: str
    app_port: int
    """Where it sends signed events when it was started so."""

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/"

    async def control(self, path: str, **body: Any) -> Any:
        """Call `/_control/PATH`: POST with a body, GET without."""
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                "POST" if body else "GET", f"{self.url}/_control/{path}", json=body or None
            ) as response,
        ):
            return await response.json()

    async def messages(self, channel: str) -> Any:
        """Return every message of a channel, oldest first, those only one person sees included."""
        return (await self.control(f"messages/{channel}"))["messages"]

    async def press(
        self,
        channel: str,
        message: Mapping[str, Any],
        button: Mapping[str, Any],
        user: str = ALICE,
    ) -> None:
        """Press a button of a message."""
        action = {
            "type": "button",
            "action_id": button["action_id"],
            "value": button["value"],
            "block_id": "b",
        }
        await self.control(
            "interact", channel=channel, messageTs=message["ts"], user=user, action=action
        )


def free_port() -> int:
    """Return a port of loopback that is free now: of this worker's own thousand, below those that the system gives away."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = 20_000 + 1_000 * (worker % 12) + randrange(1_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def slack_server(mode: str, folder: Path, app_port: int = 0) -> Iterator[SlackServer]:
    """Start the server in `socket` or `events` mode with its files in `folder`; stop it at the end."""
    port = free_port()
    config = folder / f"slack-{mode}.yaml"
    config.write_text(yaml.safe_dump(workspace(mode, app_port)))
    preload = folder / "preload.js"
    preload.write_text(_PRELOAD)
    command = [
        str(npm.installed(CACHE, BINARY, (PACKAGE,))),
        "--config",
        str(config),
        "--port",
        str(port),
        "--base-host",
        "127.0.0.1",
    ]
    environment = os.environ | {"BUN_OPTIONS": f"--preload={preload}"}
    with (folder / f"slack-{mode}.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        _wait(port, process)
        yield SlackServer(f"http://127.0.0.1:{port}", app_port)
    finally:
        process.terminate()
        process.wait(10)


def workspace(mode: str, app_port: int) -> dict[str, Any]:
    """Return the configuration: two people, two channels, one app."""
    app = {
        "appId": "A01APP",
        "botUserId": "U0BOT",
        "botName": "trnbot",
        "botToken": BOT_TOKEN,
        "appToken": APP_TOKEN,
    }
    app |= {"signingSecret": SECRET, "mode": mode}
    if mode == "events":
        app["requestUrl"] = f"http://127.0.0.1:{app_port}/slack/events"
    people = [(ALICE, "alice", "Alice Anderson"), (BOB, "bob", "Bob Brown")]
    return {
        "workspace": {"name": "Trainium", "domain": "trainium", "teamId": "T01TEST"},
        "app": app,
        "users": [
            {"id": i, "name": n, "real_name": r, "email": f"{n}@example.com"} for i, n, r in people
        ],
        "channels": [
            {"id": GENERAL, "name": "general", "members": [ALICE, BOB, "U0BOT"]},
            {"id": FINANCE, "name": "finops-alerts", "members": [ALICE, "U0BOT"]},
        ],
    }


def _wait(port: int, process: subprocess.Popen[bytes], seconds: float = 20) -> None:
    """Wait until the port answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("local-slack did not start")
