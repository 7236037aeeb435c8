"""Everything outside fails in every way, and repeats what it was sent: no secret is in an error, a log, a card or a page."""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from adapters.chat.config import PUBLIC, SlackConfig, TeamsConfig, TeamsSdk
from adapters.chat.slack.auth import Installation
from adapters.chat.slack.forms import Requester
from adapters.chat.slack.surface import SlackSurface
from adapters.chat.teams.activity import Account, Place, Reference
from adapters.chat.teams.conversations import Conversation
from adapters.chat.teams.surface import TeamsSurface
from adapters.store.memory import MemoryStore
from adapters.store.open import open_store
from adapters.web.people import Known, OidcConfig
from adapters.web.surface import WebConfig
from bot.cards.card import Card, Chart, ChartKind, text
from bot.errors import TrnbotError
from bot.model.request import LOCAL
from bot.ports import ChatPorts
from bot.settings.settings import read_settings
from bot.wiring.checks import examine
from bot.wiring.source import OpenedSource
from tests.builders import NOON
from tests.e2e.product import product, recording
from tests.e2e.slackserver import free_port
from tests.storm.loop import simulate

SECRET = "S3CRET"
HOLDERS = (
    SlackConfig(bot_token=f"xoxb-{SECRET}", app_token=f"xapp-{SECRET}", signing_secret=SECRET),
    SlackConfig(client_id="1", client_secret=SECRET, signing_secret=SECRET),
    TeamsConfig(app_id="1", app_password=SECRET),
    Installation("T1", "x", SECRET, "B1", "U1", NOON),
    OidcConfig("https://issuer.example", "1", SECRET),
    WebConfig(secret=SECRET, known=Known(secret=SECRET.encode())),
)
TOKEN, APP_TOKEN, TICKET = f"xoxb-{SECRET}-1", f"xapp-{SECRET}-1", f"_hooks/response/{SECRET}"
CARD = Card(
    "FIRING", blocks=(text("idle"), Chart(ChartKind.LINE, "Use", "%", (), summary="It fell."))
)
WAYS = (
    "hang",
    "reset",
    "429",
    "401",
    "500",
    "page",
    "text",
    "unknown host",
    "no TLS",
    "closed port",
)
Door = Callable[[str], Awaitable[None]]


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: type(holder).__name__)
def test_no_text_made_of_what_holds_a_secret_shows_it(holder: object) -> None:
    assert SECRET not in f"{holder} {holder!r}"


class Parrot:
    """Fail in one way, saying back all that was sent."""

    def __init__(self, way: str) -> None:
        self.way, self.heard = way, 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.heard += 1
        said = f"{request.url} {dict(request.headers)} {(await request.read()).decode(errors='replace')}"
        match self.way:
            case "hang":
                await asyncio.sleep(600)
            case "reset" if request.transport:
                request.transport.abort()
            case "429":
                return web.json_response(
                    {"ok": False, "error": said}, status=429, headers={"Retry-After": "1"}
                )
            case "401":
                return web.json_response(
                    {"ok": False, "error": "invalid_auth", "error_description": said}, status=401
                )
            case "page":
                return web.Response(
                    text=f"<html>{said}</html>", content_type="text/html", status=502
                )
            case "text":
                return web.Response(text=said)
        return web.json_response(
            {"ok": False, "error": {"code": said, "message": said}}, status=500
        )


@asynccontextmanager
async def failing(way: str) -> Any:
    """Give an address that fails so."""
    made = web.Application()
    made.router.add_route("*", "/{tail:.*}", parrot := Parrot(way))
    runner = web.AppRunner(made, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    addresses = {
        "unknown host": "http://nowhere.invalid",
        "no TLS": f"https://127.0.0.1:{port}",
        "closed port": "http://127.0.0.1:9",
    }
    yield addresses.get(way, f"http://127.0.0.1:{port}"), parrot
    await runner.cleanup()


async def slack(url: str) -> None:
    """Use every way out to Slack; the one answer goes to a response address, which is a secret too."""

    async def answer(_: Any) -> Card:
        return CARD

    config = SlackConfig(
        bot_token=TOKEN,
        app_token=APP_TOKEN,
        signing_secret=SECRET,
        api_url=f"{url}/api/",
        interval_s=0,
    )
    made = SlackSurface(
        config, ChatPorts(answer, lambda: NOON, lambda _: b"\x89PNG", store := MemoryStore(), store)
    )
    responder = (await made._workspaces.of("")).responder
    requester = Requester(
        "U1", "dana", "C1", response_url=f"{url}/{TICKET}", belonging=LOCAL, address="slack:U1"
    )
    await _told(made.post("C1", CARD, "k"), responder.respond("cost", requester))
    if "invalid" in url:
        return  # looking up a name that nobody has takes a while each time
    await _told(
        made.edit("C2", "1.1", CARD, "k"),
        made.reply("C3", "1.1", CARD, "k1"),
        made.posted("C4"),
        made.belongs("U1", "S1"),
        made.start(),
        responder.respond_in_modal("cost", requester, "t1"),
        responder.show_home(requester),
    )
    await made.stop()


async def agents(url: str) -> None:
    """Do as `teams` does, by the other SDK."""
    await teams(url, TeamsSdk.AGENTS)


async def teams(url: str, sdk: TeamsSdk = TeamsSdk.BOTBUILDER) -> None:
    """Sign in, speak and ask Graph."""

    async def nobody(_: Any) -> Any:
        raise AssertionError

    cloud = type(PUBLIC)(
        f"{url}/keys",
        f"{url}/keys",
        PUBLIC.issuer,
        PUBLIC.scope,
        f"{url}/login",
        PUBLIC.home,
        (f"{urlsplit(url).scheme}://{urlsplit(url).hostname}",),
        url,
    )
    config = TeamsConfig(app_id="app", app_password=SECRET, tenant_id="T1", cloud=cloud, sdk=sdk)
    made = TeamsSurface(
        config,
        ChatPorts(nobody, lambda: NOON, lambda _: b"", store := MemoryStore(), store),
        nobody,
    )
    reference = Reference(
        Place("19:c", "channel", "T1"), url, Account("28:b"), Account("29:u"), "msteams"
    )
    await made._conversations.remember(Conversation(reference, "channel"))
    await _told(
        made.post("19:c", CARD, "k"),
        made.edit("19:c", "m1", CARD, "k"),
        made.belongs("29:u", "owners:X"),
    )
    credentials: Any = made._client._credentials
    credentials._token, credentials._until = f"bearer-{SECRET}", 1e12
    await _told(
        made.post("19:c", CARD, "k"),
        made.reply("19:c", "m1", CARD, "k1"),
        made.post("29:u", CARD, "k"),
    )
    await made.stop()


async def _told(*asked: Awaitable[Any]) -> None:
    """Do each; whatever is raised must be a sentence for people, without a secret."""
    for one in asked:
        try:
            await one
        except TrnbotError as error:
            assert SECRET not in f"{error!s} {error!r} {error.__cause__}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("door", [slack, teams, agents])
def test_no_secret_shows_however_a_platform_fails(
    door: Door, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")

    async def fail() -> int:
        async with failing(way) as (url, parrot):
            await door(url)
            return int(parrot.heard)

    heard = simulate(fail())
    assert heard > 1 or way in ("unknown host", "no TLS", "closed port")
    assert SECRET not in caplog.text
    assert SECRET not in str([record.__dict__ for record in caplog.records])


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://bot:{SECRET}@127.0.0.1:9/trnbot",
        f"postgresql://bot:{SECRET}@nowhere.invalid/trnbot?connect_timeout=1",
        f"postgresql://127.0.0.1:9/trnbot?user=bot&password={SECRET}",
        f"postgresql://bot:{SECRET}@127.0.0.1:notaport/trnbot",
        f"mysql://bot:{SECRET}@127.0.0.1/trnbot",
        f"postgresql://bot:{SECRET}@[::1/trnbot",
        f"bot:{SECRET}@db",
    ],
)
def test_no_password_shows_however_a_database_fails(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with pytest.raises(TrnbotError) as caught:
        open_store(url)
    assert SECRET not in f"{caught.value!s} {caught.value!r} {caplog.text}"


FAILING = {
    "SLACK_BOT_TOKEN": TOKEN,
    "SLACK_APP_TOKEN": APP_TOKEN,
    "SLACK_SIGNING_SECRET": SECRET,
    "SLACK_API_URL": "http://127.0.0.1:9/",
    "MicrosoftAppId": "app",
    "MicrosoftAppPassword": SECRET,
    "MicrosoftAppTenantId": "T1",
    "TRNBOT_WEB_TOKEN": f"{SECRET}-of-the-console",
    "TRNBOT_ROUTE": "slack:C02FIN,teams:19:c@thread.tacv2",
    "TRNBOT_SPEED": "100000",
}


def test_no_secret_shows_of_a_product_to_which_everything_fails(tmp_path: Path) -> None:
    environment = FAILING | {"TRNBOT_SOURCE": f"recording:{recording('tiny')}"}
    with product(tmp_path, free_port(), environment, ("serve", "--verbose"), ready=False) as bot:
        while "slack:C02FIN was not delivered" not in bot.log.read_text():
            assert bot.process.poll() is None
            time.sleep(0.2)
        pages = "".join(
            _page(f"{bot.url}{path}")
            for path in ("/healthz", "/metrics", "/", "/login", "/alerts", "/nothing")
        )
    settings = read_settings(environment)
    told = repr(examine(settings, OpenedSource(settings.source, settings)))
    assert "Slack" in told
    assert SECRET not in f"{pages}{bot.log.read_text()}{told}"


def _page(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read())
    except urllib.error.HTTPError as refused:
        return str(refused.read())
