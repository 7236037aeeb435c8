"""*Do it…* in the real clients: an alert's nodes are stopped by a press, and where it was pressed is told that it worked.

What changes the fleet is the product's own actor, over an EC2 that stands in: it takes botocore's requests, and stops
what it is asked to. With TRNBOT_SHOTS=FOLDER pictures are taken, wide and narrow, light and dark.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from adapters.aws.api.calls import NoData
from adapters.aws.api.operations import Place
from adapters.aws.live.acting import Actor
from adapters.http import application
from adapters.store.open import open_store
from bot.app import App
from bot.settings.settings import read_settings
from bot.wiring.build import Database, Shown, running_bot
from bot.wiring.source import OpenedSource
from tests.aws_live.test_acting import Answers
from tests.builders import with_parts
from tests.e2e.consoles import tab
from tests.e2e.playground import playground
from tests.e2e.product import recording
from tests.e2e.slackserver import FINANCE, free_port, slack_server
from tests.e2e.test_life import SHOTS, SOON_MS, Screen, screen, teams_settings
from tests.e2e.test_product import ask, message, slack_settings

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
IDLE = datetime(2026, 11, 17, 3, 50, tzinfo=UTC)
LATER = IDLE + timedelta(minutes=5)
ROLE = "arn:aws:iam::111122223333:role/trnbot-act"
BESIDE = (
    ".sidebar,.workspace-sidebar,body:has(.ac-adaptiveCard)"
    " div:not(:has(.ac-adaptiveCard)):has(h2){display:none !important}"
    "div:has(.ac-adaptiveCard),.ac-adaptiveCard{min-width:0 !important;max-width:100vw !important}"
)
"""Takes away what a phone does not show beside the messages, and the width that a client insists on."""
TINY = {"TRNBOT_SOURCE": f"recording:{recording('tiny')}"}
WIDE, NARROW = {"width": 1000, "height": 900}, {"width": 390, "height": 844}


class Ec2(Answers):
    """Stop the instances that it is asked to, and say so; each request is checked against botocore's model."""

    def __init__(self) -> None:
        super().__init__(stop_instances={}, describe_instances={})
        self.stopped: dict[str, str] = {}
        """The name of the session that stopped each instance."""

    def call(self, place: Place, service: str, operation: str, **given: Any) -> Mapping[str, Any]:
        super().call(place, service, operation, **given)
        if given.get("DryRun"):
            raise NoData("Request would have succeeded, but DryRun flag is set.")
        if operation == "stop_instances":
            self.stopped |= dict.fromkeys(given["InstanceIds"], place.session)
            return {}
        states = {True: {"Name": "stopped"}, False: {"Name": "running"}}
        found = [
            {"InstanceId": name, "State": states[name in self.stopped]}
            for name in given["Filters"][0]["Values"]
        ]
        return {"Reservations": [{"Instances": found}]}

    def pages(self, *named: Any, **given: Any) -> Iterator[Mapping[str, Any]]:
        yield self.call(*named, **given)


class Acting:
    """Hold a bot that may act, the EC2 that it acts on, and where it listens."""

    def __init__(self, app: App, ec2: Ec2, alert: str, url: str) -> None:
        self.app, self.ec2, self.alert, self.url = app, ec2, alert, url

    async def outcome(self) -> None:
        """Let the tick come that sees whether it worked."""
        assert await self.app.tick(LATER)


@asynccontextmanager
async def acting(
    folder: Path, environment: Mapping[str, str], port: int, second_usd: str = "0"
) -> AsyncIterator[Acting]:
    """Let the bot answer on its surfaces at a time when two nodes do nothing, in this process."""
    settings = read_settings({**environment, "TRNBOT_ACT_SECOND_USD": second_usd})
    store, ec2 = open_store(f"sqlite:///{folder}/trnbot.db"), Ec2()
    source = OpenedSource(settings.source, settings)
    bot = running_bot(settings, Database(store, store), source, Shown(lambda: IDLE, 1))
    bot.app.ports = with_parts(bot.app.ports, actions=Actor(ec2, [ROLE]))
    for listener in bot.listeners:
        await listener.start()
    runner = web.AppRunner(application(bot.listeners))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()

    ticked = await bot.app.tick(IDLE)
    assert ticked
    (alert,) = [alert.id for alert in ticked.outcome.alerts if alert.firing]
    yield Acting(bot.app, ec2, alert, f"http://127.0.0.1:{port}")

    for listener in bot.listeners:
        await listener.stop()
    await runner.cleanup()
    store.close()


async def pictured(client: Screen, part: str) -> None:
    """Leave pictures of the whole client, wide and narrow, light and dark."""
    if not SHOTS:
        return
    for width, size in (("", WIDE), ("-phone", NARROW)):
        await client.page.set_viewport_size(size)
        await client.page.mouse.move(1, 1)
        beside = await client.page.add_style_tag(content=BESIDE if width else "/**/")
        await client.page.locator(".msg,.ac-adaptiveCard").last.scroll_into_view_if_needed()
        await client.page.wait_for_timeout(400)
        if client.draws:
            await client.page.evaluate(client.draws, FINANCE)
        path = Path(SHOTS) / f"{client.name}-{part}{width}.png"
        await client.page.screenshot(path=str(path))
        await client.darken(client.page, path.with_stem(f"{path.stem}-dark"))
        await beside.evaluate("style => style.remove()")
    await client.page.set_viewport_size(WIDE)


async def test_two_idle_nodes_are_stopped_by_a_press_in_slack(tmp_path: Path, browser: Any) -> None:
    with slack_server("socket", tmp_path) as server:
        async with (
            acting(tmp_path, slack_settings(server, "socket"), free_port()) as bot,
            screen(browser, server.url, "slack-act") as slack,
        ):
            await slack.page.get_by_text("finops-alerts").first.click()
            await slack.press("Do it…")
            await slack.sees("EC2 tried it dry")
            assert not bot.ec2.stopped
            await pictured(slack, "asked")
            await slack.press("Do it")
            await slack.sees("under way")
            await pictured(slack, "pressed")
            assert [name.partition("-slack.")[0][:8] for name in bot.ec2.stopped.values()] == [
                "trnbot-x"
            ] * 2

            await bot.outcome()
            told = await message(server, FINANCE, ": worked")
            assert "ephemeral_to" not in told
            await slack.sees(": worked")
            await pictured(slack, "worked")


async def test_they_are_stopped_by_a_press_in_teams(tmp_path: Path, browser: Any) -> None:
    port = free_port()
    with playground(f"http://127.0.0.1:{port}/api/messages") as url:
        async with (
            acting(tmp_path, teams_settings() | TINY, port) as bot,
            screen(browser, "about:blank", "teams-act", 1400) as teams,
        ):
            await teams.page.goto(url)
            await teams.sees("Hello, trnbot watches")
            await ask(teams.page, f"alert {bot.alert}")
            await teams.press("Do it…")
            await teams.sees("EC2 tried it dry")
            assert not bot.ec2.stopped
            await pictured(teams, "asked")
            await teams.press("Do it")
            await teams.sees("under way")
            assert len(bot.ec2.stopped) == 2
            await bot.outcome()
            await teams.sees(": worked")
            await pictured(teams, "worked")


async def test_they_are_stopped_by_two_presses_in_the_console(tmp_path: Path, browser: Any) -> None:
    """By two people whom a proxy names; one alone is not enough above the sum."""
    people = {
        "TRNBOT_WEB_PROXIES": "127.0.0.1/32",
        "TRNBOT_ADMINS": "web:mei@example.com,web:dana@example.com",
        "TRNBOT_PUBLIC_URL": "http://console.example",
    }
    async with acting(tmp_path, people | TINY, free_port(), "20000") as bot:
        async with tab(browser, bot.url, 1000, "light") as first:
            await first.page.set_extra_http_headers({"X-Forwarded-User": "mei@example.com"})
            console = Screen(first.page, "console-act")
            await first.open(f"/alert/{bot.alert}")
            await console.press("Do it…")
            await console.sees("EC2 tried it dry")
            await looked_at(console, "asked")
            await console.press("Do it")
            await surely(console)
            await console.sees("Everyone sees it in")
            await first.open("/")
            await console.sees("waits for a second admin")
            assert not bot.ec2.stopped
            await looked_at(console, "pressed")
            await console.press("Do it")
            await surely(console)
            await console.sees("You have pressed already")
        async with tab(browser, bot.url, 1000, "light") as second:
            await second.page.set_extra_http_headers({"X-Forwarded-User": "dana@example.com"})
            console = Screen(second.page, "console-act")
            await second.open("/")
            await console.press("Do it")
            await surely(console)
            await console.sees("under way")
            assert len(bot.ec2.stopped) == 2
            await bot.outcome()
            await console.sees(": worked")
            await looked_at(console, "worked")


async def surely(console: Screen) -> None:
    """Answer the console, which asks again before what cannot be taken back."""
    asked = console.page.locator("dialog[open]")
    await asked.get_by_role("button", name="Do it", exact=True).click(timeout=SOON_MS)


async def looked_at(console: Screen, part: str) -> None:
    """Leave pictures of the console, which has dark colours of its own."""
    if not SHOTS:
        return
    for width, size in (("", WIDE), ("-phone", NARROW)):
        await console.page.set_viewport_size(size)
        for theme in ("light", "dark"):
            await console.page.emulate_media(color_scheme=theme)
            await console.page.locator(".card:visible").last.scroll_into_view_if_needed()
            await console.page.wait_for_timeout(400)
            name = f"{console.name}-{part}{width}{'-dark' if theme == 'dark' else ''}.png"
            await console.page.screenshot(path=str(Path(SHOTS) / name))
    await console.page.emulate_media(color_scheme="light")
    await console.page.set_viewport_size(WIDE)
