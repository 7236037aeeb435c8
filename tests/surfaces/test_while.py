"""For how long what a platform told is believed, what is asked once, and what is left once a surface stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from adapters.chat.slack.belonging import Belongings as SlackBelongings
from adapters.chat.slack.belonging import Members
from adapters.chat.slack.client import Client, SlackSetup
from adapters.chat.slack.forms import Claim
from adapters.chat.teams.activity import Account, Activity, Place
from adapters.chat.teams.belonging import Belongings as TeamsBelongings
from adapters.chat.teams.belonging import Tenants
from adapters.chat.teams.conversations import Conversations, Owners, Person
from adapters.chat.teams.surface import SigningKey, SigningKeys
from adapters.chat.work import Refusals
from adapters.store.memory import MemoryStore
from bot.errors import Unavailable
from bot.model.notification import Delays
from bot.watch.background import Background
from tests.surfaces.sides import SlackSide, TeamsSide


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def asked(time: Time, ask: Callable[[], Awaitable[object]], count: Callable[[], int], fresh_s: float) -> None:  # fmt: skip
    """Check that an answer is asked for once, until it is so old."""
    for at, times in ((0.0, 1), (fresh_s, 1), (fresh_s + 1, 2), (2 * fresh_s + 1, 2)):
        time.seconds = at
        await ask()
        assert count() == times, at


@pytest.mark.parametrize(
    ("method", "fresh_s"),
    [
        ("users.info", 3_600.0),
        ("conversations.info", 300.0),
        ("auth.test", 3_600.0),
        ("usergroups.users.list", 300.0),
        ("users.info of admins", 300.0),
    ],
)
async def test_what_slack_tells_is_believed_for_a_while(method: str, fresh_s: float) -> None:
    async with SlackSide() as side:
        side.slack.groups["S1"] = ["UDANA"]
        time, client = Time(), Client("xoxb-secret-token", side.slack.url, Delays())
        belongings, members = SlackBelongings(client, monotonic=time), Members(client, time)
        ask: dict[str, Callable[[], Awaitable[object]]] = {
            "users.info": lambda: belongings.requester(Claim("UDANA")),
            "conversations.info": lambda: belongings.shared("C1"),
            "auth.test": lambda: belongings.requester(Claim("UDANA")),
            "usergroups.users.list": lambda: members.belongs("UDANA", "S1"),
            "users.info of admins": lambda: members.belongs("UDANA", "admins"),
        }
        name = method.partition(" ")[0]
        await asked(time, ask[method], lambda: len(side.slack.sent(name)), fresh_s)


class Roster:
    """A connector that lists Dana, and counts how often it is asked; None is away."""

    def __init__(self) -> None:
        self.member: Any = {"tenantId": "T1", "userRole": "user", "email": "Dana@Ours.example"}
        self.asked = 0

    async def get(self, _: str, path: str) -> Any:
        self.asked += 1
        if self.member is None:
            raise Unavailable("away")
        return self.member if path.endswith("dana") else [self.member]


def said(**more: Any) -> Activity:
    place = Place("a:1", "personal", "T1")
    return Activity("message", place, Account("29:dana"), Account("28:bot"), tenants=frozenset({"T1"}), **more)  # fmt: skip


async def tell(_: str) -> None:
    """Tell nobody."""


async def test_what_the_roster_tells_is_believed_for_an_hour_and_while_it_is_away_for_a_day() -> (
    None
):
    time, roster, store = Time(), Roster(), MemoryStore()
    tenants = Tenants(frozenset({"T1"}), store, tell)
    conversations = Conversations(store, lambda *_: asyncio.sleep(0, "a:opened"))
    belongings = TeamsBelongings(conversations, tenants, roster, signed=True, monotonic=time)  # type: ignore[arg-type]
    await asked(time, lambda: belongings.admit(said()), lambda: roster.asked, 3_600.0)
    assert belongings.email("29:dana") == "dana@ours.example"

    roster.member = None
    time.seconds = 3_601 + 86_400.0
    await belongings.admit(said())
    time.seconds += 1
    with pytest.raises(Unavailable, match="did not say which organization"):
        await belongings.admit(said())


class Keys(SigningKeys):
    """Keys of which one is known; counts how often they are fetched."""

    fetched = 0

    async def _download(self) -> dict[str, SigningKey]:
        self.fetched += 1
        return {"k1": SigningKey("key", ["msteams"])}


async def test_signing_keys_are_kept_for_a_day_and_an_unknown_one_asks_every_five_minutes() -> None:
    time = Time()
    keys = Keys("http://127.0.0.1:9", time)
    await asked(time, lambda: keys.get("k1"), lambda: keys.fetched, 86_400.0)
    for later, fetched in ((0.0, 2), (299.0, 2), (301.0, 3), (302.0, 3)):
        time.seconds = 86_401.0 + later
        with pytest.raises(PermissionError):
            await keys.get("k9")
        assert keys.fetched == fetched, later


async def test_owners_of_a_team_are_believed_for_five_minutes() -> None:
    class Graph(Owners):
        asked = 0

        async def _ask(self, _: str) -> frozenset[str]:
            self.asked += 1
            return frozenset({"0f8f"})

    async def person(_: str) -> Person:
        return Person(entra="0F8F")

    time, team = Time(), "owners:0f8fad5b-d9cb-469f-a165-70867728950e"
    graph = Graph("https://graph.example", None, person, time)  # type: ignore[arg-type]
    assert await graph.belongs("29:dana", team)
    assert not await graph.belongs("29:dana", "owners:x")
    await asked(time, lambda: graph.belongs("29:dana", team), lambda: graph.asked, 300.0)


def test_who_is_refused_is_told_once_an_hour_and_once_a_minute_where_that_is_not_sure() -> None:
    for certain, every_s in ((True, 3_600.0), (False, 60.0)):
        time = Time()
        refusals = Refusals(time)
        due = []
        for at in (0.0, 1.0, every_s, every_s + 1):
            time.seconds = at
            due.append(refusals.is_due("eve", certain=certain))
        assert due == [True, False, False, True]
        assert refusals.is_due("mallory", certain=certain)


async def test_setting_up_asks_slack_what_its_tokens_open() -> None:
    async with SlackSide() as side:
        setup = SlackSetup(side.slack.url)
        listed = [
            {"id": "C1", "name": "zoo", "is_member": True},
            {"id": "C2", "name": "all"},
            {"id": "C3", "name": "ops", "is_member": True},
        ]
        pages = [({"channels": listed[:2]}, "next"), ({"channels": listed[2:]}, "")]
        side.slack.pages = [
            web.json_response({"ok": True, **page, "response_metadata": {"next_cursor": cursor}})
            for page, cursor in pages
        ]
        assert [(x.id, x.joined) for x in await setup.channels("xoxb-1")] == [
            ("C3", True),
            ("C1", True),
            ("C2", False),
        ]
        (first, second) = side.slack.sent("conversations.list")
        assert (first.get("cursor"), second["cursor"]) == (None, "next")
        side.slack.home |= {"team": "Ours"}
        assert await setup.workspace("xoxb-1") == "Ours"
        side.slack.failing["apps.connections.open"] = ["invalid_auth"]
        with pytest.raises(Unavailable, match="does not accept the token"):
            await setup.check_app("xapp-1")


class Round(Background):
    """A round that does nothing."""

    async def work(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("kind", ["slack", "teams", "round"])
async def test_nothing_goes_on_once_what_was_started_is_stopped(kind: str) -> None:
    before = asyncio.all_tasks()
    if kind == "round":
        listener = Round("a round", 0.001)
        await listener.start()
        await asyncio.sleep(0)
        await listener.stop()
    else:
        async with SlackSide() if kind == "slack" else TeamsSide() as side:
            await side.surface.start()
            await side.mention("alerts")
            await side.surface.stop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert {task.get_name() for task in asyncio.all_tasks() - before} == set()
