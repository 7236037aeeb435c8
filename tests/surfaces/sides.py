"""Stand a whole bot behind a chat, do what people do there, and tell what goes out: each call, its place, and what it shows."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Self

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from adapters.chat.config import TeamsConfig, TeamsSdk
from adapters.chat.slack.listener import PRESSES
from adapters.chat.slack.surface import SlackSurface
from adapters.chat.teams.surface import TeamsSurface
from adapters.store.memory import MemoryStore
from bot.answers.all import ANSWERS
from bot.app import App
from bot.cards.card import Card
from bot.grammar.access import Access
from bot.grammar.line import effect_of
from bot.knowledge import load_knowledge
from bot.model.request import Request
from bot.ports import ChatPorts
from bot.ports.chat import Answer
from bot.wiring.surfaces import command_hints
from tests.builders import FIVE, NOON, anomaly, ports_over, with_parts
from tests.house.fakes import Fleet, Script
from tests.slack import conftest as slack_fakes
from tests.surfaces.outline import of_blocks, of_card, of_view
from tests.teams import conftest as teams_fakes
from tests.teams.signing import APP, SECRET, Login, cloud, token

assert ANSWERS
Calls = list[tuple[str, list[str]]]
"""Each call in words, and the outline of what it shows."""
STALE = {"type": "button", "action_id": "old", "value": ""}
THEIRS = "T9"
PATIENCE_S = 60.0
"""No answer takes so long, however busy the machine is: nothing is said to be worked on."""


class Log(logging.Handler):
    """Keep the warnings of a chat's room."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Holding(MemoryStore):
    """Know which messages and presses are held, as a database does."""

    def __init__(self) -> None:
        super().__init__()
        self.held: set[str] = set()

    def hold(self, name: str) -> int:
        free = name not in self.held
        self.held.add(name)
        return int(free)

    def release(self, name: str, token: int) -> None:
        self.held.discard(name)


class Side:
    """Be one platform: a bot with one alert firing in its channel, and the people around it.

    Its alert, found by its line, is `self.alert`; `answer` puts something else in the place of the whole bot.
    """

    name, channel = "", ""

    def __init__(self, answer: Answer | None = None, *, shared: bool = False) -> None:
        self._stack, self._log, self.store = AsyncExitStack(), Log(), Holding()
        self.shared, self._heard = shared, list[tuple[int, str, list[str]]]()
        surfaces: dict[str, Any] = {}
        script = Script(*(anomaly(at=NOON + n * FIVE) for n in range(2)))
        ports = ports_over(Fleet(), self.store, detect=script, surfaces=surfaces)
        ports = with_parts(ports, knowledge=load_knowledge(), people=surfaces)
        admins = Access((f"{self.name}:{self.id('ada')}",))
        self.bot = App(ports, (f"{self.name}:{self.channel}",), admins, stopwatch=lambda: 0.0)
        self._surfaces, self._answer = surfaces, answer or self.bot.answer
        self.now, self.alert, self.message = NOON, "", ""
        self.asked: list[Request] = []

    def ports(self) -> ChatPorts:
        async def answer(request: Request) -> Card:
            self.asked.append(request)
            return await self._answer(request)

        draw: Callable[..., bytes] = lambda _: b"\x89PNG"  # noqa: E731
        hints = command_hints()
        return ChatPorts(answer, lambda: self.now, draw, self.store, self.store, hints, effect_of, self.store, PATIENCE_S)  # fmt: skip

    async def __aenter__(self) -> Self:
        logger = logging.getLogger(f"trnbot.{self.name}")
        logger.addHandler(self._log)
        self._stack.callback(logger.removeHandler, self._log)
        await self.open()
        self._surfaces[self.name] = self.surface
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.surface.stop()
        await self._stack.aclose()

    surface: Any

    def id(self, person: str) -> str:
        raise NotImplementedError

    async def open(self) -> None:
        raise NotImplementedError

    async def serve(self, routes: Sequence[Any]) -> str:
        app = web.Application()
        app.add_routes(routes)
        server = TestServer(app)
        await self._stack.enter_async_context(server)
        return str(server.make_url("")).rstrip("/")

    async def alerted(self) -> Self:
        """Let the watch raise its alert, and forget how it was said."""
        result = await self.bot.tick(NOON)
        assert result
        self.alert = result.outcome.alerts[0].id
        (entry,) = self.store.load(NOON).notification_log
        self.message = entry.message
        self.forget()
        return self

    def forget(self) -> None:
        raise NotImplementedError

    def hear(self, at: int, words: str, shown: list[str]) -> None:
        """Note what answered a request that came when so many calls had gone out."""
        self._heard.append((at, words.rstrip(), shown))

    def went_out(self) -> Calls:
        """Return all that went out since, in order, with the warnings that were logged, and forget it."""
        calls = self.calls()
        for n, (at, *answer) in enumerate(self._heard):
            calls.insert(at + n, (answer[0], answer[1]))
        calls += [(f"logs: {line}", []) for line in self._log.lines]
        self.forget()
        self._log.lines.clear()
        return [(self.unnamed(words), [self.unnamed(x) for x in shown]) for words, shown in calls]

    def left_over(self) -> list[str]:
        """Return what is still held or kept of what people did."""
        return [*self.store.held, *PRESSES.keys(self.store, 9)]

    def calls(self) -> Calls:
        raise NotImplementedError

    def unnamed(self, text: str) -> str:
        """Put a word in the place of what differs from run to run, or from platform to platform."""
        text = text.replace(self.alert, "ALERT") if self.alert else text
        return text.replace(f"{self.name}:{self.channel}", "CHANNEL")


class SlackSide(Side):
    """Be Slack."""

    name, channel = "slack", "C1"

    def id(self, person: str) -> str:
        return f"U{person.upper()}"

    async def open(self) -> None:
        self.slack = slack_fakes.FakeSlack()
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self.slack.serve)
        server = TestServer(app)
        await self._stack.enter_async_context(server)
        self.slack.url = str(server.make_url("/api/"))
        self.slack.people = {
            self.id(name): {"name": name} for name in ("dana", "ada", "gus", "eve")
        }
        self.slack.people[self.id("gus")] |= {"is_restricted": True}
        self.slack.people[self.id("eve")] |= {"team_id": THEIRS}
        self.slack.channels = {self.channel: {"is_ext_shared": self.shared}}
        config = replace(
            slack_fakes.config(self.slack, bot_token="xoxb-secret-token"),
            public_url="https://trnbot.example",
        )
        self.surface = SlackSurface(config, self.ports())
        url = await self.serve(self.surface.routes())
        session = await self._stack.enter_async_context(ClientSession(url))
        self.people = slack_fakes.Workspace(session, self.surface, self.slack)

    def forget(self) -> None:
        self._heard.clear()
        self.slack.calls.clear()

    def calls(self) -> Calls:
        return [self._call(*call) for call in self.slack.calls]

    def unnamed(self, text: str) -> str:
        return super().unnamed(text).replace(self.slack.url, "SLACK/")

    def _call(self, method: str, body: Mapping[str, Any]) -> tuple[str, list[str]]:
        facts = ("channel", "user", "users", "user_id", "ts", "thread_ts", "response_type", "delete_original", "channel_id", "status", "file", "filename")  # fmt: skip
        words = " ".join(f"{x}={body[x]}" for x in facts if body.get(x))
        words += " with key" if "metadata" in body and "event_type" in body["metadata"] else ""
        view = body.get("view")
        if isinstance(view, dict):
            return f"{method} {words}".rstrip(), of_view(view)
        if "unfurls" in body:
            unfurls = body["unfurls"]
            unfurls = json.loads(unfurls) if isinstance(unfurls, str) else unfurls
            drawn = [
                f"{url}: {x}" for url, part in unfurls.items() for x in of_blocks(part["blocks"])
            ]
            objects = body.get("metadata") or {"entities": ()}
            objects = json.loads(objects) if isinstance(objects, str) else objects
            drawn += [json.dumps(x, ensure_ascii=False) for x in objects["entities"]]
            return f"{method} {words}".rstrip(), drawn
        return f"{method} {words}".rstrip(), of_blocks(body.get("blocks") or ())

    async def _sent(self, sending: Awaitable[tuple[int, str]]) -> None:
        at = len(self.slack.calls)
        status, text = await sending
        shown: list[str] = []
        if text.startswith("{") and "view" in (body := json.loads(text)):
            text, shown = f"{body['response_action']} the window", of_view(body["view"])
        self.hear(at, f"answers {status} {text}", shown)

    async def event(self, event: Mapping[str, Any], name: str = "Ev1", **more: Any) -> None:
        body = {"type": "event_callback", "team_id": "T1", "event_id": name, "event": event, **more}
        await self._sent(self.people.send(json.dumps(body), "application/json"))

    async def mention(self, line: str, by: str = "dana", thread: str = "", **more: Any) -> None:
        where = {"thread_ts": thread} if thread else {}
        said = {"type": "app_mention", "user": self.id(by), "channel": self.channel, "ts": "7.1"}
        await self.event(said | where | {"text": f"<@UBOT> {line}"} | more)

    async def direct(self, line: str, by: str = "dana", **more: Any) -> None:
        said = {"type": "message", "channel_type": "im", "user": self.id(by), "channel": "D1"}
        await self.event(said | {"ts": "8.1", "text": line} | more)

    async def slash(self, line: str, by: str = "dana", **more: Any) -> None:
        person = {"user_id": self.id(by), "user_name": by}
        await self._sent(self.people.command(line, **person, **more))

    async def press(self, line: str, by: str = "dana", opens: bool = False, private: bool = False, thread: str = "", **more: Any) -> None:  # fmt: skip
        container = {"type": "message", "message_ts": self.message, "is_ephemeral": private}
        message = {"ts": self.message} | ({"thread_ts": thread} if thread else {})
        who = {"user": {"id": self.id(by), "username": by}}
        pressed = {"container": container, "message": message, **who}
        await self._sent(
            self.people.press(line, "opens:0" if opens else "line:0", **(pressed | more))
        )

    async def submit(self, view: Mapping[str, Any], by: str = "dana", **filled: str) -> None:
        """Fill in the inputs of a modal, those not named as they stand, and submit it."""
        values = {}
        for block in view["blocks"]:
            if block["type"] == "input":
                name = block["block_id"]
                values[name] = {name: _filled(block["element"], filled.get(name))}
        payload = {"type": "view_submission", "user": {"id": self.id(by), "username": by}}
        view = {**view, "id": "V1", "state": {"values": values}}
        await self._sent(self.people.interact(payload | {"view": view}))

    def views(self) -> list[Mapping[str, Any]]:
        """Return the modals that were opened or filled since."""
        return [body["view"] for _, body in self.slack.calls if isinstance(body.get("view"), dict)]

    async def member_joins(self) -> None:
        await self.event(
            {"type": "member_joined_channel", "user": self.id("dana"), "channel": "C1"}
        )

    async def reaction(self) -> None:
        await self.event({"type": "reaction_added", "user": self.id("dana"), "reaction": "+1"})

    async def edited(self) -> None:
        await self.direct("alerts", subtype="message_changed")

    async def home(self) -> None:
        await self.event(
            {"type": "app_home_opened", "user": self.id("dana"), "channel": "D1", "tab": "home"}
        )

    async def removed(self) -> None:
        await self.event({"type": "app_uninstalled"})

    async def stale(self) -> None:
        await self.press("", actions=[STALE])

    def fails(self, how: str) -> None:
        """Let the next message be refused: `limit` for a moment, `limit 60` s, `away`, `refused`, `gone`."""
        codes = {"limit": "429 0", "limit 60": "429 60", "refused": "not_in_channel", "gone": "message_not_found", "away": "internal_error"}  # fmt: skip
        new = ("chat.postMessage", "chat.postEphemeral", "response")
        for method in ("chat.update", *(new if how != "gone" else ())):
            self.slack.failing[method] = [codes[how]]


def _filled(element: Mapping[str, Any], value: str | None) -> dict[str, Any]:
    kind = element["type"]
    if kind == "checkboxes":
        on = value == "on" or (value is None and "initial_options" in element)
        return {"type": kind, "selected_options": element["options"] if on else []}
    if kind == "static_select":
        start = element.get("initial_option", {}).get("value")
        chosen = value or start
        return {"type": kind, "selected_option": {"value": chosen} if chosen else None}
    if kind == "users_select":
        return {"type": kind, "selected_user": value}
    if kind == "datetimepicker":
        return {"type": kind, "selected_date_time": 1_795_197_600 if value else None}
    return {"type": kind, "value": element.get("initial_value") if value is None else value}


PERSONAL = {"id": "a:personal", "conversationType": "personal", "tenantId": "T1"}


class TeamsSide(Side):
    """Be Teams: Microsoft signs each activity, and the roster tells who belongs."""

    name, channel = "teams", "19:c@thread.tacv2"
    sdk = TeamsSdk.BOTBUILDER

    def id(self, person: str) -> str:
        return f"29:{person}"

    async def open(self) -> None:
        login, self.connector = Login(), teams_fakes.Connector()
        login.url = await self.serve(
            [
                web.get("/configuration", login.configuration),
                web.get("/keys", login.keys),
                web.post("/{tenant}/oauth2/v2.0/token", login.token),
            ]
        )
        place = "/v3/conversations/{conversation}"
        made = self.connector
        self.service_url = made.url = await self.serve(
            [
                web.post("/v3/conversations", made.open),
                web.post(f"{place}/activities", made.take),
                web.route("*", f"{place}/activities/{{id}}", made.take),
                web.get(f"{place}/members", made.members),
                web.get(f"{place}/members/{{user}}", made.member),
            ]
        )
        made.roster = {
            self.id(name): teams_fakes.MEMBER | {"id": self.id(name), "name": name}
            for name in ("dana", "ada", "gus", "eve")
        }
        made.roster[self.id("gus")] |= {"userRole": "guest"}
        made.roster[self.id("eve")] |= {"tenantId": THEIRS}
        config = TeamsConfig(
            app_id=APP,
            app_password=SECRET,
            tenant_id="T1",
            cloud=cloud(login),
            answer_timeout_s=PATIENCE_S,
            sdk=self.sdk,
        )
        self.told: list[str] = []

        async def tell(sentence: str) -> None:
            self.told.append(sentence)

        self.surface = TeamsSurface(config, self.ports(), tell)
        self._url = await self.serve(self.surface.routes())
        self._session = await self._stack.enter_async_context(ClientSession())
        self._count = 0

    async def alerted(self) -> Self:
        await self.installed()
        return await super().alerted()

    def forget(self) -> None:
        self._heard.clear()
        self.connector.calls.clear()
        self.connector.queries.clear()
        self.connector.rosters_asked.clear()
        self.connector.opened.clear()
        self.told.clear()

    def calls(self) -> Calls:
        looked = [f"looks up {x}" for x in self.connector.rosters_asked]
        opened = [f"opens a chat with {x['members'][0]['id']}" for x in self.connector.opened]
        sent = [
            self._call(*call, query)
            for call, query in zip(self.connector.calls, self.connector.queries, strict=True)
        ]
        told = [f"tells an admin: {x}" for x in self.told]
        return [*sent, *((x, []) for x in (*looked, *opened, *told))]

    def _call(self, method: str, path: str, body: Mapping[str, Any], query: str) -> tuple[str, list[str]]:  # fmt: skip
        place = path.removeprefix("/v3/conversations/")
        words = f"{method} {body['type']} {place} {query}".rstrip()
        if body["type"] == "message":
            to = f" to {body['recipient'].get('id')}" if "isTargeted" in body["recipient"] else ""
            return f"{words}{to}", of_card(body["attachments"][0]["content"])
        return words, []

    def unnamed(self, text: str) -> str:
        return super().unnamed(text).replace(self.channel, "C1")

    async def send(self, **more: Any) -> None:
        self._count += 1
        by = more.pop("by", "dana")
        activity = {
            "type": "message",
            "id": f"a{self._count}",
            "channelId": "msteams",
            "serviceUrl": self.service_url,
            "from": {"id": self.id(by), "name": by},
            "recipient": {"id": teams_fakes.BOT, "name": "trnbot"},
            "channelData": {"tenant": {"id": "T1"}}
            | ({"channel": {"type": "shared"}} if self.shared else {}),
            **more,
        }
        at, headers = len(self.connector.calls), {"Authorization": f"Bearer {token(self)}"}
        async with self._session.post(
            f"{self._url}/api/messages", json=activity, headers=headers
        ) as response:
            text = await response.text()
            status = response.status
        await asyncio.sleep(0)
        await self.surface._responder.tasks.drain()
        shown: list[str] = []
        if text.startswith("{"):
            body = json.loads(text)
            is_card = isinstance(body["value"], dict)
            text = "a card in its place" if is_card else f"“{body['value']}”"
            shown = of_card(body["value"]) if is_card else []
        self.hear(at, f"answers {status} {text}", shown)

    def _there(self, thread: str = "") -> dict[str, Any]:
        place = f"{self.channel};messageid={thread}" if thread else self.channel
        return {"id": place, "conversationType": "channel", "tenantId": "T1", "isGroup": True}

    async def mention(self, line: str, by: str = "dana", thread: str = "7.1", **more: Any) -> None:
        of_bot = {
            "type": "mention",
            "mentioned": {"id": teams_fakes.BOT},
            "text": "<at>trnbot</at>",
        }
        said = {"text": f"<at>trnbot</at> {line}", "entities": [of_bot]}
        await self.send(by=by, conversation=self._there(thread), **(said | more))

    async def direct(self, line: str, by: str = "dana", **more: Any) -> None:
        await self.send(by=by, text=line, conversation=dict(PERSONAL), **more)

    async def slash(self, line: str, by: str = "dana", **more: Any) -> None:
        bot = {"id": teams_fakes.BOT, "name": "trnbot", "isTargeted": True}
        await self.send(by=by, text=line, conversation=self._there("7.1"), recipient=bot, **more)

    async def press(self, line: str, by: str = "dana", private: bool = False, thread: str = "", data: Mapping[str, Any] | None = None, **more: Any) -> None:  # fmt: skip
        value = {"action": {"data": {"line": line} if data is None else data}}
        bot = {"id": teams_fakes.BOT, "name": "trnbot"} | ({"isTargeted": True} if private else {})
        place = self._there(thread or self.message)
        what = {"type": "invoke", "name": "adaptiveCard/action", "value": value}
        pressed = {"recipient": bot, "conversation": place, **what}
        await self.send(by=by, **(pressed | more))

    async def installed(self, by: str = "dana", *, personal: bool = False) -> None:
        place = dict(PERSONAL) if personal else self._there()
        added = {"type": "conversationUpdate", "membersAdded": [{"id": teams_fakes.BOT}]}
        await self.send(by=by, conversation=place, **added)

    async def member_joins(self) -> None:
        added = {"type": "conversationUpdate", "membersAdded": [{"id": self.id("ada")}]}
        await self.send(conversation=self._there(), **added)

    async def reaction(self) -> None:
        what = {"type": "messageReaction", "reactionsAdded": [{"type": "like"}]}
        await self.send(conversation=self._there(), **what)

    async def edited(self) -> None:
        await self.send(type="messageUpdate", text="alerts", conversation=dict(PERSONAL))

    async def home(self) -> None:
        await self.installed(personal=True)

    async def removed(self) -> None:
        await self.send(type="installationUpdate", action="remove", conversation=self._there())

    async def stale(self) -> None:
        await self.press("", data={"old": 1})

    def fails(self, how: str) -> None:
        status, wait = {"limit": (429, "0"), "limit 60": (429, "60"), "refused": (403, ""), "gone": (404, ""), "away": (500, "")}[how]  # fmt: skip
        headers = {"Retry-After": wait} if wait else {}
        self.connector.answers.append(web.json_response({}, status=status, headers=headers))


class AgentsSide(TeamsSide):
    """Be Teams for a bot whose activities the other SDK carries."""

    sdk = TeamsSdk.AGENTS


def controls(card: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the data of each control of an Adaptive Card."""
    for element in card["body"]:
        for action in element.get("actions", ()):
            if action["type"] == "Action.Execute":
                yield action["data"]


def inputs(card: Mapping[str, Any]) -> dict[str, str]:
    """Return what a form holds before anybody fills it in."""
    named = (x for x in card["body"] if x["type"].startswith("Input."))
    return {x["id"]: x["value"] for x in named if "value" in x}
