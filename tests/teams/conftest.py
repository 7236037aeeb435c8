"""Stand up a connector service, a surface on a loopback port, and a person who writes to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import ClientSession, web

from adapters.chat.config import TeamsConfig, TeamsSdk
from adapters.chat.teams.surface import TeamsSurface
from adapters.store.memory import MemoryStore
from bot.answers.all import ANSWERS
from bot.cards.card import Card, Tone, text
from bot.grammar.line import effect_of
from bot.model.request import Request
from bot.ports import ChatPorts, CommandHint
from tests.teams.signing import APP, SECRET, Login, cloud

assert ANSWERS
BOT = "28:bot"
NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
MEMBER = {"tenantId": "T1", "userRole": "user", "userPrincipalName": "somebody@ours.example"}
HINTS = [
    CommandHint("cost", "What Trainium costs.", "cost 7d by team"),
    CommandHint("fleet", "Every node.", "fleet"),
]


@dataclass
class Connector:
    """Record what the bot sends, as the Bot Connector service would take it."""

    url: str = ""
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    opened: list[dict[str, Any]] = field(default_factory=list)
    """What was asked to open chats."""
    headers: list[Mapping[str, str]] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    answers: list[web.Response] = field(default_factory=list)
    """What to answer first, in order; afterwards every call succeeds."""
    roster: dict[str, dict[str, str] | int] = field(default_factory=dict)
    """Who is in the conversations, or the status that answers for them; everybody else is a member of T1."""
    rosters_asked: list[str] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        self.calls.append((request.method, request.path, await request.json()))
        self.headers.append(request.headers)
        self.queries.append(request.query_string)
        if self.answers:
            return self.answers.pop(0)
        return web.json_response({"id": f"m{len(self.calls)}"}, status=201)

    async def open(self, request: web.Request) -> web.Response:
        self.opened.append(await request.json())
        return (
            self.answers.pop(0)
            if self.answers
            else web.json_response({"id": "a:opened"}, status=201)
        )

    async def member(self, request: web.Request) -> web.Response:
        user = request.match_info["user"]
        self.rosters_asked.append(user)
        self.headers.append(request.headers)
        return self._listed(self.roster.get(user, MEMBER | {"id": user}))

    async def members(self, request: web.Request) -> web.Response:
        self.rosters_asked.append("*")
        failed = next((one for one in self.roster.values() if isinstance(one, int)), None)
        return self._listed(failed or [MEMBER, *self.roster.values()])

    def _listed(self, listed: object) -> web.Response:
        return web.Response(status=listed) if isinstance(listed, int) else web.json_response(listed)

    def said(self) -> list[dict[str, Any]]:
        """Return the activities but for signs of typing."""
        return [body for _, _, body in self.calls if body["type"] == "message"]

    def cards(self) -> list[dict[str, Any]]:
        return [body["attachments"][0]["content"] for body in self.said()]


Serve = Callable[[Sequence[web.RouteDef]], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serve routes on a free loopback port, until the test is over."""
    runners: list[web.AppRunner] = []

    async def start(routes: Sequence[web.RouteDef]) -> str:
        app = web.Application()
        app.add_routes(routes)
        runners.append(web.AppRunner(app, shutdown_timeout=0.1))
        await runners[-1].setup()
        await web.TCPSite(runners[-1], "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runners[-1].addresses[0][1]}"

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def connector(serve: Serve) -> Connector:
    made = Connector()
    path = "/v3/conversations/{conversation}/activities"
    roster = "/v3/conversations/{conversation}/members"
    made.url = await serve(
        [
            web.post("/v3/conversations", made.open),
            web.post(path, made.take),
            web.route("*", path + "/{id}", made.take),
            web.get(roster, made.members),
            web.get(roster + "/{user}", made.member),
        ]
    )
    return made


@dataclass
class Bot:
    """Hold a surface that listens, and what it was asked."""

    surface: TeamsSurface
    url: str
    service_url: str
    asked: list[Request]
    answer: Callable[[Request], Awaitable[Card]]
    shelf: MemoryStore
    told: list[str]

    async def send(
        self, activity: Mapping[str, Any], token: str = "", headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Post an activity as Teams does; return status and JSON body."""
        said = {"Authorization": f"Bearer {token}"} if token else {}
        async with (
            ClientSession() as session,
            session.post(self.url, json=activity, headers=said | dict(headers or {})) as response,
        ):
            return response.status, await response.json(
                content_type=None
            ) if response.status == 200 else None

    async def raw(self, body: bytes, content_type: str = "application/json") -> int:
        """Post bytes; return the status."""
        headers = {"Content-Type": content_type}
        async with (
            ClientSession() as session,
            session.post(self.url, data=body, headers=headers) as response,
        ):
            return response.status

    async def settled(self) -> None:
        """Wait until every answer was sent."""
        await asyncio.sleep(0)
        await self.surface._responder.tasks.drain()

    async def hear(self, text: str, **more: Any) -> tuple[int, Any]:
        """Let a person write, and wait for the answer."""
        result = await self.send(self.activity(text=text, **more))
        await self.settled()
        return result

    async def press(self, data: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Let a person press a button."""
        value = {
            "action": {"type": "Action.Execute", "verb": "line", "data": data},
            "trigger": "manual",
        }
        invoke = self.activity(
            type="invoke", name="adaptiveCard/action", value=value, replyToId="m1", **more
        )
        status, body = await self.send(invoke)
        assert status == 200
        return dict(body)

    def activity(self, **more: Any) -> dict[str, Any]:
        """Return a message of Dana's, as Teams writes it."""
        return {
            "type": "message",
            "id": f"a{len(self.asked)}-{id(more)}",
            "channelId": "msteams",
            "serviceUrl": self.service_url,
            "from": {"id": "29:dana", "name": "Dana", "aadObjectId": "0"},
            "recipient": {"id": BOT, "name": "trnbot"},
            "conversation": {"id": "a:personal", "conversationType": "personal", "tenantId": "T1"},
            "channelData": {"tenant": {"id": "T1"}},
            **more,
        }


async def told(request: Request) -> Card:
    """Answer with what was asked."""
    return Card("Answer", Tone.INFO, (text(f"you asked: {request.line}"),))


NewBot = Callable[..., Awaitable[Bot]]


@pytest.fixture
def sdk() -> TeamsSdk:
    """Return the SDK that serves; `test_sdk.py` and the scenes of `tests/surfaces` are done by both."""
    return TeamsSdk.BOTBUILDER


@pytest.fixture
async def new_bot(connector: Connector, serve: Serve, sdk: TeamsSdk) -> AsyncIterator[NewBot]:
    """Start a surface; in development unless told otherwise."""
    bots: list[Bot] = []

    async def make(**settings: Any) -> Bot:
        asked: list[Request] = []
        shelf = settings.pop("shelf", None) or MemoryStore()
        heard: list[str] = []

        async def tell(sentence: str) -> None:
            heard.append(sentence)

        async def answer(request: Request) -> Card:
            asked.append(request)
            return await bots[0].answer(request)

        hints, draw = settings.pop("hints", HINTS), settings.pop("draw", lambda _: b"\x89PNG")
        patience_s = settings.pop("patience_s", 2.0)
        ports = ChatPorts(
            answer, lambda: NOW, draw, shelf, shelf, hints, effect_of, working_after_s=patience_s
        )
        surface = TeamsSurface(
            TeamsConfig(**({"development": True, "sdk": sdk} | settings)), ports, tell
        )
        url = await serve(surface.routes())
        bots.append(Bot(surface, f"{url}/api/messages", connector.url, asked, told, shelf, heard))
        return bots[-1]

    yield make
    for bot in bots:
        await bot.surface.stop()


@pytest.fixture
async def bot(new_bot: NewBot) -> Bot:
    return await new_bot()


@pytest.fixture
async def login(serve: Any) -> Login:
    made = Login()
    routes = [web.get("/configuration", made.configuration), web.get("/keys", made.keys)]
    made.url = await serve([*routes, web.post("/{tenant}/oauth2/v2.0/token", made.token)])
    return made


@pytest.fixture
async def signed(new_bot: Any, login: Login) -> Any:
    return await new_bot(
        app_id=APP, app_password=SECRET, tenant_id="T1", development=False, cloud=cloud(login)
    )
