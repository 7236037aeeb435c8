"""What no walk reaches: parts of the wiring at their edges."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from adapters.aws.live.source import LastReading
from adapters.chat.config import TeamsConfig, TeamsSdk
from bot.errors import Refused, Unavailable
from bot.model.action import ActionKind
from bot.model.codec import encode
from bot.model.reading import Reading, Report, Shares
from bot.model.request import LOCAL, Manner, Request, User
from bot.ports import REPORTS, SHARES
from bot.settings.settings import read_settings
from bot.wiring.build import StoreShards, known_people
from bot.wiring.programs import ToolCalls
from bot.wiring.serve import retention_of
from bot.wiring.source import open_actor
from bot.wiring.surfaces import teams_config
from tests.aws_live.conftest import World
from tests.aws_live.test_acting import ACCOUNT, ROLE, action
from tests.builders import NOON


class Board:
    """A database of which the test says who lives, and what lies in it."""

    def __init__(self, living: Sequence[str], **documents: Mapping[str, Any]) -> None:
        self.living, self.documents = living, documents

    def processes(self) -> Sequence[str]:
        return self.living

    def get(self, collection: str, key: str) -> Mapping[str, Any] | None:
        assert collection in (REPORTS.collection, SHARES.collection)
        return self.documents.get("shares" if collection == SHARES.collection else key)


SHARED = Shares("n1", NOON, "lead", {"llama": "b", "tiny": "c", "own": "lead"})


def report(process: str, number: str = "n1") -> Mapping[str, Any]:
    return dict(encode(Report(number, process)))


@pytest.mark.parametrize(
    ("living", "documents", "reported"),
    [
        (("lead", "b", "c"), {"b": report("b"), "c": report("c")}, ["b", "c"]),
        (("lead", "b"), {"b": report("b")}, None),
        (("lead", "c"), {}, None),
        (("lead", "b", "c"), {"b": report("b"), "c": report("c", "n0")}, ["b"]),
        (("lead",), {"b": report("b"), "c": report("c")}, ["b", "c"]),
    ],
    ids=["all", "one gone", "the other gone", "one late", "gone after they reported"],
)
def test_a_lead_waits_for_who_lives_and_reports_on_these_shares(
    living: Sequence[str], documents: Mapping[str, Any], reported: list[str] | None
) -> None:
    shards = StoreShards(Board(living, **documents), 0.05, 0.001)  # type: ignore[arg-type]
    found = shards.reports(SHARED)
    assert (found and [x.process for x in found]) == reported


@pytest.mark.parametrize(
    ("process", "answered", "is_due"),
    [("b", "", True), ("b", "n1", False), ("lead", "", False), ("b", "n0", True)],
)
def test_shares_are_due_once_and_not_for_the_lead(
    process: str, answered: str, is_due: bool
) -> None:
    board: Any = Board((process,), shares=dict(encode(SHARED)))
    assert (StoreShards(board, 1, 1).due(answered) == (SHARED, process)) is is_due
    assert StoreShards(Board((process,)), 1, 1).due(answered) is None  # type: ignore[arg-type]


PROXY = {"TRNBOT_WEB_PROXIES": "10.0.3.7", "TRNBOT_WEB_PROXY_USER": "X-User"}
OIDC = {
    "TRNBOT_OIDC_ISSUER": "https://login.example.com",
    "TRNBOT_OIDC_CLIENT_ID": "trnbot",
    "TRNBOT_OIDC_CLIENT_SECRET": "s3cret",
    "TRNBOT_OIDC_CLAIM": "upn",
}


def test_the_console_knows_people_by_what_is_set() -> None:
    nobody, proxied, signed = (
        known_people(read_settings(x)) for x in ({}, PROXY, OIDC | {"TRNBOT_WEB_ROLES": "*=reader"})
    )
    assert not nobody.any
    assert proxied.proxy is not None
    assert (proxied.proxy.user, proxied.provider) == ("X-User", None)
    assert signed.proxy is None
    assert signed.provider is not None
    assert signed.secret == b"s3cret"
    assert len(signed.roles.rules) == 1


def test_a_change_of_the_fleet_is_asked_for_once(world: World) -> None:
    world.standin.faults.throttled = 1.0
    settings = read_settings({"TRNBOT_ACT_ROLES": ROLE})
    with pytest.raises(Unavailable):
        open_actor(settings).advance(action(ActionKind.STOP, "i-1"))
    assert world.standin.failed.total() == 1
    with pytest.raises(Refused):
        open_actor(read_settings({})).advance(action(ActionKind.STOP, "i-1"))
    assert ACCOUNT in ROLE


def test_an_older_reading_takes_the_place_of_no_newer_one() -> None:
    last, asked = LastReading(), threading.Event()
    with last.asking:
        pass
    for minutes in (10, 5):
        last.read(NOON + timedelta(minutes=minutes), Reading)

    def ask() -> None:
        with last.asking:
            asked.wait(10)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        newest = last.read(NOON + timedelta(minutes=20), Reading)
    finally:
        asked.set()
        asking.join()
    assert newest.now == NOON + timedelta(minutes=10)


def test_nobody_knows_of_instances_that_may_not_be_described(world: World) -> None:
    live = world.live()
    (now,) = world.ticks(2, 2)
    before = live.read(now)
    assert before.unread == frozenset()
    world.standin.faults.denied = {"ec2:DescribeInstances"}
    (now,) = world.ticks(2.25, 2.25)
    assert live.read(now).unread == frozenset(before.inventory.instances)


TEAMS = {
    "MicrosoftAppId": "11111111-2222-3333-4444-555555555555",
    "MicrosoftAppPassword": "s3cret",
    "MicrosoftAppTenantId": "t1",
    "TRNBOT_TEAMS_TENANTS": "t2, t3",
    "TRNBOT_TEAMS_SDK": "agents",
}


def test_teams_is_set_up_by_each_of_its_settings() -> None:
    made = teams_config(read_settings(TEAMS))
    assert made == TeamsConfig(
        app_id=TEAMS["MicrosoftAppId"],
        app_password="s3cret",
        tenant_id="t1",
        tenants=("t2", "t3"),
        sdk=TeamsSdk.AGENTS,
    )


class Pruned:
    """A database that notes what is to be dropped."""

    def prune(self, *asked: Any) -> int:
        self.asked = asked
        return 0


async def test_what_comes_once_is_kept_for_a_day_and_messages_for_the_retention() -> None:
    store = Pruned()
    day, month, year = (timedelta(days=n) for n in (1, 30, 365))
    settings = read_settings({"TRNBOT_RETENTION": "30d", "TRNBOT_KEEP_ALERTS": "365d"})
    await retention_of(settings, store).work()
    once = ("slack.seen", "slack.oauth", "slack.presses", "teams.seen", REPORTS.collection)
    messages = ("slack-pictures", "teams.messages")
    ages = dict.fromkeys(once, day) | dict.fromkeys(messages, month)
    assert store.asked == (ages, month, {"alerts": year})


class Asked:
    """An app that notes what it is asked."""

    async def ask(self, request: Request, **_: Any) -> Any:
        self.request = request
        raise Unavailable("That is all.")


async def test_what_programs_read_is_viewed_and_changes_nothing() -> None:
    asked = Asked()

    async def opened(_: str) -> Any:
        return asked, NOON

    calls = ToolCalls(opened, User("web:program", "a program"), "web")
    with pytest.raises(Unavailable):
        await calls.read("cost", {"by": "team"})
    assert asked.request == Request(
        "cost by=team", User("web:program", "a program"), NOON, "web", LOCAL, manner=Manner.VIEWED
    )
