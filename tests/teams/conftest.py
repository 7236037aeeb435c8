"""Stand up a connector service, a surface on a loopback port, and a person who writes to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import ClientSession, web

from adapters.teams.surface import TeamsSurface
from bot.cards.card import Card, Tone, text
from bot.model.request import Request
from bot.ports import CommandHint

BOT = "28:bot"
NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
HINTS = [CommandHint("cost", "What Trainium costs.", "cost 7d by team"), CommandHint("fleet", "Every node.", "fleet")]


class MemoryShelf:
    """Keep documents in memory."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str], Mapping[str, Any]] = {}

    def put(self, shelf: str, key: str, document: Mapping[str, Any]) -> None:
        self.documents[shelf, key] = document

    def get(self, shelf: str, key: str) -> Mapping[str, Any] | None:
        return self.documents.get((shelf, key))

    def newest(self, shelf: str, most: int) -> Sequence[tuple[str, Mapping[str, Any]]]:
        return [(k, d) for (s, k), d in reversed(self.documents.items()) if s == shelf][:most]

    def drop(self, shelf: str, key: str) -> None:
        self.documents.pop((shelf, key), None)


@dataclass
class Connector:
    """Record what the bot sends, as the Bot Connector service would take it."""

    url: str = ""
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    answers: list[web.Response] = field(default_factory=list)
    """What to answer first, in order; afterwards every call succeeds."""

    async def take(self, request: web.Request) -> web.Response:
        self.calls.append((request.method, request.path, await request.json()))
        self.headers.append(request.headers)
        if self.answers:
            return self.answers.pop(0)
        return web.json_response({"id": f"m{len(self.calls)}"}, status=201)

    def said(self) -> list[dict[str, Any]]:
        """Return the activities but for signs of typing."""
        return [body for _, _, body in self.calls if body["type"] == "message"]

    def cards(self) -> list[dict[str, Any]]:
        return [body["attachments"][0]["content"] for body in self.said()]


async def serve(routes: Sequence[web.RouteDef]) -> tuple[web.AppRunner, str]:
    """Serve routes on a free loopback port."""
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


@pytest.fixture
async def connector() -> AsyncIterator[Connector]:
    made = Connector()
    path = "/v3/conversations/{conversation}/activities"
    runner, made.url = await serve([web.post(path, made.take), web.route("*", path + "/{id}", made.take)])
    yield made
    await runner.cleanup()


@dataclass
class Bot:
    """Hold a surface that listens, and what it was asked."""

    surface: TeamsSurface
    url: str
    service_url: str
    asked: list[Request]
    answer: Callable[[Request], Awaitable[Card]]
    shelf: MemoryShelf

    async def send(self, activity: Mapping[str, Any], token: str = "") -> tuple[int, Any]:
        """Post an activity as Teams does; return status and JSON body."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with ClientSession() as session, session.post(self.url, json=activity, headers=headers) as response:
            return response.status, await response.json(content_type=None) if response.status == 200 else None

    async def settled(self) -> None:
        """Wait until every answer was sent."""
        await asyncio.sleep(0)
        await self.surface._listener.drain()

    async def hear(self, text: str, **more: Any) -> tuple[int, Any]:
        """Let a person write, and wait for the answer."""
        result = await self.send(self.activity(text=text, **more))
        await self.settled()
        return result

    async def press(self, data: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Let a person press a button."""
        value = {"action": {"type": "Action.Execute", "verb": "line", "data": data}, "trigger": "manual"}
        invoke = self.activity(type="invoke", name="adaptiveCard/action", value=value, replyToId="m1", **more)
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


CHANNEL = {"id": "19:c@thread.tacv2;messageid=100", "conversationType": "channel", "tenantId": "T1", "isGroup": True}


async def told(request: Request) -> Card:
    """Answer with what was asked."""
    return Card("Answer", Tone.INFO, (text(f"you asked: {request.line}"),))


async def make_bot(connector: Connector, **settings: Any) -> tuple[Bot, web.AppRunner]:
    """Start a surface; development on loopback unless told otherwise."""
    asked: list[Request] = []
    shelf = MemoryShelf()
    bot: Bot

    async def answer(request: Request) -> Card:
        asked.append(request)
        return await bot.answer(request)

    usual = {"app_id": "", "app_password": "", "tenant_id": "", "development": True}
    surface = TeamsSurface(
        answer=answer, clock=lambda: NOW, draw=lambda _: b"\x89PNG", shelf=shelf, hints=HINTS, **(usual | settings)
    )
    runner, url = await serve(surface.routes())
    bot = Bot(surface, f"{url}/api/messages", connector.url, asked, told, shelf)
    return bot, runner


@pytest.fixture
async def bot(connector: Connector) -> AsyncIterator[Bot]:
    made, runner = await make_bot(connector)
    yield made
    await made.surface.stop()
    await runner.cleanup()
