"""Serve Slack's Web API on loopback and speak to the surface as Slack does: by signed requests."""

import asyncio
import hashlib
import hmac
import json
import time
from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from adapters.chat.config import SlackConfig
from adapters.chat.slack.surface import SlackSurface
from adapters.store.memory import MemoryStore
from bot.answers.all import ANSWERS
from bot.cards.card import Card, text
from bot.grammar.line import effect_of
from bot.ports import ChatPorts, CommandHint

assert ANSWERS
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
NOW = datetime(2026, 11, 20, 14, 25, tzinfo=UTC)
HINTS = (
    CommandHint("cost", "What Trainium costs.", "cost 7d by team", changes=False),
    CommandHint("ack", "Acknowledge.", "ack a1"),
)


class FakeSlack:
    """Record every call and answer it; `failing[method]` holds error codes to answer with first."""

    def __init__(self):
        self.calls, self.failing, self.history, self.url, self.pages = [], {}, [], "", []
        self.tokens, self.granted, self.replies = [], {}, []
        """Which token each call showed; what each code of an installation is answered with."""
        self.groups, self.admins, self.profile = {}, set(), {}
        self.people, self.channels, self.home = {}, {}, {"team_id": "T1"}
        """What Slack tells of a person, of a channel, and of the token's own workspace, beside what it tells of all."""

    async def serve(self, request):
        method = request.path.rsplit("/", 1)[-1]
        body = await self._body(request)
        self.calls.append((method, body))
        self.tokens.append(
            (method, request.headers.get("Authorization", "").removeprefix("Bearer "))
        )
        if self.pages:
            return self.pages.pop(0)
        if codes := self.failing.get(method):
            code = codes.pop(0)
            if code.startswith("429"):
                patience = {"Retry-After": code.partition(" ")[2] or "0"}
                return web.json_response(
                    {"ok": False, "error": "ratelimited"}, status=429, headers=patience
                )
            status = 400 if method == "response" else 200
            return web.json_response(
                {"ok": False, "error": code, "needed": "chat:write"}, status=status
            )
        team = self.tokens[-1][1].partition("xoxb-")[2]
        return web.json_response(
            {"ok": True, **self._answer(method, body, team if team in ("T1", "T2") else "T1")}
        )

    async def _body(self, request):
        if request.content_type == "application/json":
            return await request.json()
        if request.content_type == "application/x-www-form-urlencoded":
            form = dict(request.query) | dict(await request.post())
            return form | ({"view": json.loads(form["view"])} if "view" in form else {})
        return dict(request.query) | {"bytes": await request.read()}

    def _answer(self, method, body, team):
        person = {
            "id": body.get("user"),
            "team_id": team,
            "is_admin": body.get("user") in self.admins,
        }
        return {
            "auth.test": {"user_id": "U0BOT", "bot_id": "B0BOT"} | self.home,
            "conversations.info": {
                "channel": {"id": body.get("channel")} | self.channels.get(body.get("channel"), {})
            },
            "chat.postMessage": {"ts": f"{len(self.calls)}.0001", "channel": body.get("channel")},
            "chat.update": {"ts": body.get("ts")},
            "chat.postEphemeral": {"message_ts": "9.9"},
            "conversations.open": {"channel": {"id": f"D-{body.get('users')}"}},
            "usergroups.users.list": {"users": self.groups.get(body.get("usergroup"), [])},
            "users.info": {"user": person | self.profile | self.people.get(body.get("user"), {})},
            "oauth.v2.access": self.granted.get(body.get("code"), {}),
            "views.open": {"view": {"id": "V1"}},
            "views.push": {"view": {"id": "V2"}},
            "conversations.history": {"messages": self.history},
            "conversations.replies": {"messages": self.replies},
            "files.getUploadURLExternal": {
                "upload_url": f"{self.url}upload",
                "file_id": f"F{len(self.calls)}",
            },
            "files.completeUploadExternal": {"files": [json.loads(body.get("files", "[{}]"))[0]]},
        }.get(method, {})

    def sent(self, *methods):
        return [body for method, body in self.calls if method in methods]


class Bot:
    """Answer with whatever card a test sets, and remember the requests."""

    def __init__(self):
        self.before = lambda: asyncio.sleep(0)
        self.asked, self.card = [], Card("Cost of 7 days", blocks=(text("$142,000"),))

    async def __call__(self, request):
        self.asked.append(request)
        await self.before()
        return self.card


@pytest.fixture
async def slack():
    fake = FakeSlack()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", fake.serve)
    async with TestServer(app) as server:
        fake.url = str(server.make_url("/api/"))
        yield fake


@pytest.fixture
def bot():
    return Bot()


def config(slack, **tokens):
    """Return an app that serves signed HTTP and waits between no two messages."""
    return SlackConfig(**{"signing_secret": SECRET, "api_url": slack.url, "interval_s": 0} | tokens)


def ports(answer, store, clock=lambda: NOW, patience_s=2.0):
    """Return the bot's parts around a store."""
    draw = lambda chart: b"\x89PNG chart"  # noqa: E731
    return ChatPorts(answer, clock, draw, store, store, HINTS, effect_of, store, patience_s)


@pytest.fixture
def patience_s():
    """Return how long an answer may take before something is said; a test of what takes longer has less."""
    return 2.0


@pytest.fixture
async def surface(slack, bot, patience_s):
    parts = ports(bot, MemoryStore(), patience_s=patience_s)
    made = SlackSurface(config(slack, bot_token="xoxb-secret-token"), parts)
    yield made
    await made.stop()


class Workspace:
    """Be Slack for the surface: send what people do, wait for what the bot does about it."""

    def __init__(self, client, surface, slack):
        self._client, self._surface, self._slack = client, surface, slack
        self._trigger = 0

    async def send(self, body, content_type, *, secret=SECRET, age=0, headers=None, drain=True):
        stamp = str(int(time.time()) - age)
        signed = hmac.new(
            secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256
        ).hexdigest()
        known = {
            "X-Slack-Signature": f"v0={signed}",
            "X-Slack-Request-Timestamp": stamp,
            "Content-Type": content_type,
        }
        response = await self._client.post(
            "/slack/events", data=body.encode(), headers=known | (headers or {})
        )
        text = await response.text()
        if drain:
            await self.drain()
        return response.status, text

    async def drain(self):
        await self._surface.stop()

    async def event(self, event, event_id="Ev1", team="T1", **options):
        body = {
            "type": "event_callback",
            "team_id": team,
            "api_app_id": "A1",
            "event_id": event_id,
            "event": event,
        }
        return await self.send(json.dumps(body), "application/json", **options)

    async def command(self, text, *, drain=True, **fields):
        body = {
            "command": "/trn",
            "text": text,
            "team_id": "T1",
            "user_id": "U1",
            "user_name": "dana",
            "channel_id": "C1",
        }
        body |= {"trigger_id": self._fresh(), "response_url": f"{self._slack.url}response"} | fields
        return await self.send(urlencode(body), "application/x-www-form-urlencoded", drain=drain)

    async def interact(self, payload, *, drain=True):
        base = {
            "team": {"id": "T1"},
            "user": {"id": "U1", "username": "dana"},
            "trigger_id": self._fresh(),
        }
        return await self.send(
            urlencode({"payload": json.dumps(base | payload)}),
            "application/x-www-form-urlencoded",
            drain=drain,
        )

    async def press(self, value, action_id="line:0", **fields):
        action = {
            "type": "button",
            "action_id": action_id,
            "block_id": "b",
            "value": value,
            "action_ts": "1.1",
        }
        where = {
            "channel": {"id": "C1"},
            "message": {"ts": "5.5"},
            "container": {"type": "message", "message_ts": "5.5"},
        }
        url = {"response_url": f"{self._slack.url}response"}
        return await self.interact(
            {"type": "block_actions", "actions": [action]} | where | url | fields
        )

    async def submit(self, view, *, drain=True):
        return await self.interact(
            {"type": "view_submission", "view": {"id": "V1", "type": "modal"} | view}, drain=drain
        )

    def _fresh(self):
        self._trigger += 1
        return f"t{self._trigger}"


@pytest.fixture
async def workspace(surface, slack):
    app = web.Application()
    app.add_routes(surface.routes())
    async with TestClient(TestServer(app)) as client:
        yield Workspace(client, surface, slack)
