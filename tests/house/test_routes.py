"""Routes from settings and from channels, through the doors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.cards.alert import Reach, notification_card
from bot.cards.card import Table, Tone
from bot.errors import WrongInput
from bot.model.notification import Notification, Reason
from bot.model.route import Routes
from bot.settings.routes import read_mapping, read_routes
from bot.settings.settings import read_settings
from bot.wiring.source import OpenedSource, SourceReplays
from tests.builders import FIVE, NOON, alert, anomaly, with_parts
from tests.house.fakes import Chat, Script, app, ask

TOML = """
[[routes]]
cluster = "llama"
severity = "critical"
to = ["slack:C1", "teams:19:x@thread.v2"]

[[routes]]
team = "search"
to = "slack:C2"

[owners]
dana = "slack:U01DANA"
kim = ["slack:U02KIM", "teams:29:1kim"]
"""


def test_tables_of_the_file_and_the_variable_say_the_same() -> None:
    said = {
        "TRNBOT_ROUTES": "cluster=llama severity=critical -> slack:C1, teams:19:x@thread.v2; team=search -> slack:C2",
        "TRNBOT_OWNERS": "dana = slack:U01DANA; kim = slack:U02KIM, teams:29:1kim",
    }
    assert read_settings({}, TOML).routes == read_settings(said).routes
    assert read_settings({}, TOML).routes.owner("kim", "teams") == "teams:29:1kim"


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        (
            '[[routes]]\nclutser = "x"\nto = "slack:C1"',
            "routes: 'clutser' is nothing to route by; did you mean 'cluster'",
        ),
        ('[[routes]]\ncluster = "x"', "routes: 'cluster=x ->' is not a route"),
        ("[owners]\ndana = 3", "owners: '3' names no platform"),
    ],
)
def test_a_wrong_table_is_told_by_its_key(toml: str, words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        read_settings({}, toml)


async def test_a_channel_subscribes_and_hears_the_next_alert() -> None:
    chat = Chat()
    bot = app(Script(anomaly(), anomaly(at=NOON + FIVE)), chat, admins=("chat:U1",))
    here = replace(ask("subscribe cluster=llama"), channel="chat:team")
    assert (await bot.answer(here)).title == "This channel is notified of cluster=llama"
    notices = (await bot.tick(NOON)).outcome.notifications
    assert [notice.channel for notice in notices] == ["chat:ops", "chat:team"]
    again = await bot.answer(here)
    assert again.data["error"] == "This channel is already notified of cluster=llama."
    assert "has no subscriptions" in (await bot.answer(replace(here, line="unsubscribe"))).title


async def test_subscribing_is_for_admins_and_from_a_channel() -> None:
    refused = await app(Script(), Chat()).answer(ask("subscribe"))
    alone = await app(Script(), Chat(), admins=("chat:U1",)).answer(
        replace(ask("subscribe"), channel="")
    )
    assert "is for admins" in str(refused.data["error"])
    assert "type this line in it" in str(alone.data["error"])


async def test_routes_tell_where_an_alert_would_go() -> None:
    bot = app(Script(), Chat())
    found = Routes(
        read_routes("cluster=llama -> slack:C1"),
        ("slack:C0",),
        escalate=("slack:C9",),
        owners={"dana": ("slack:U1",)},
    )
    bot.ports = with_parts(bot.ports, routes=found)
    card = await bot.answer(
        ask("routes test cluster=llama cause=idle severity=critical owner=dana")
    )
    assert card.data["to"] == ["default", "slack:C1"]
    assert (card.data["escalate"], card.data["owner"]) == (["slack:C9"], "slack:U1")
    listed = await bot.answer(ask("routes"))
    assert listed.data["default"] == ["slack:C0"]
    assert (await bot.answer(ask("routes test cluter=llama"))).tone is Tone.ERROR


@pytest.mark.parametrize(
    ("owner", "pinged", "words"),
    [
        ("dana", ("chat:U1",), ""),
        ("kim", (), "owner kim"),
        ("", (), "no owner tag"),
    ],
)
def test_an_owner_of_the_settings_is_mentioned_and_a_stranger_is_named(
    owner: str, pinged: tuple[str, ...], words: str
) -> None:
    routes = Routes(owners={"dana": ("chat:U1",)})
    notice = Notification("n1", "chat:ops", Reason.FIRST, NOON, (alert(owner=owner),))
    card = notification_card(notice, reach=Reach(lambda name: routes.owner(name, "chat")))
    assert tuple(mention.user for mention in card.mentions) == pinged
    assert words in repr(card.blocks)


@pytest.mark.parametrize(
    ("claims", "pinged", "words"),
    [
        (("namespace:nlp", "launcher:root"), ("chat:U3",), "owner from namespace nlp"),
        (("launcher:dana",), ("chat:U1",), "owner from launcher dana"),
        (
            ("launcher:eks-nodes",),
            (),
            "no owner tag, launcher eks-nodes",
        ),
    ],
)
def test_an_owner_that_no_tag_names_is_found_and_the_card_says_how(
    claims: tuple[str, ...], pinged: tuple[str, ...], words: str
) -> None:
    routes = Routes(owners={"dana": ("chat:U1",), "namespace:nlp": ("chat:U3",)})
    notice = Notification("n1", "chat:ops", Reason.FIRST, NOON, (alert(claims=claims),))
    card = notification_card(notice, reach=Reach(lambda name: routes.owner(name, "chat:ops")))
    assert tuple(mention.user for mention in card.mentions) == pinged
    assert words in repr(card.blocks)


async def test_routes_test_resolves_namespace_and_launcher() -> None:
    bot = app(Script(), Chat())
    bot.ports = with_parts(
        bot.ports, routes=Routes(owners={"namespace:nlp": ("slack:U3",), "lee": ("slack:U4",)})
    )
    asked = ("routes test namespace=nlp launcher=lee", "routes test launcher=lee owner=nobody")
    assert [(await bot.answer(ask(line))).data["owner"] for line in asked] == [
        "slack:U3",
        "slack:U4",
    ]


def test_a_preview_speaks_where_the_watch_would_and_a_backtest_does_not() -> None:
    settings = read_settings({"TRNBOT_ROUTE": "slack:C0", "TRNBOT_SOURCE": "simulator:7"})
    replays = SourceReplays(settings, OpenedSource(settings.source, settings))
    assert replays.open("simulator:8", settings.policy).site.routes == Routes()
    assert [one.site.routes.default for one in replays.again([settings.policy])] == [("slack:C0",)]


MAPPED = """
[[owner]]
name = "dana"
cluster = "llama*"
node_group = "trn2*"
person = "slack:U1"
channel = "slack:CDANA"
"""


async def test_routes_test_tells_whose_an_alert_is_by_the_mapping_file() -> None:
    bot = app(Script(), Chat())
    bot.ports = with_parts(
        bot.ports,
        routes=Routes(default=("slack:C0",)),
        owners=lambda: read_mapping(MAPPED, "owners.toml"),
    )
    card = await bot.answer(ask("routes test cluster=llama cause=idle node_group=trn2-a"))
    assert card.data["to"] == ["default", "slack:CDANA"]
    assert (card.data["owner_name"], card.data["owner"]) == ("dana", "slack:U1")
    assert "dana owns it by the mapping file" in repr(card.blocks)
    other = await bot.answer(ask("routes test cluster=llama cause=idle"))
    assert (other.data["to"], other.data["owner_name"]) == (["default", "slack:C0"], "")
    listed = await bot.answer(ask("routes"))
    assert "dana has cluster=llama* node_group=trn2*." in repr(listed.blocks)
    assert ("alerts of dana", "slack:CDANA", "mapping file") in next(
        b for b in listed.blocks if isinstance(b, Table)
    ).rows
